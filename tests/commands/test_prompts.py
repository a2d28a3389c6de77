"""Prompts from the command line: one text, or a file with one JSON object a line."""

from pathlib import Path

import pytest

from app.commands import prompts
from app.commands.prompts import SHIPPED_SETS, PromptItem, SamplingOverride, read_sets, require_sampled
from app.errors import BadOption
from app.values.messages import Message, Options, Prompt, Sampling

UNSAID = SamplingOverride()


def read_prompts(text: str | None, file: Path | None, raw: bool) -> list[Prompt]:
    """The prompts alone, as read without a word about sampling."""
    return [asked.prompt for asked in prompts.read_prompts(text, file, raw, UNSAID)]


def file_with(folder: Path, *lines: str) -> Path:
    file = folder / "prompts.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_a_file_has_prompts_and_chats_one_a_line(tmp_path: Path) -> None:
    file = file_with(
        tmp_path,
        '{"prompt": "Grüß dich", "id": 7}',
        "",
        '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": ""}]}',
    )
    assert read_prompts(None, file, raw=False) == [
        (Message("user", "Grüß dich"),),
        (Message("system", "Be brief."), Message("user", "")),
    ]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('\ufeff{"prompt": "one\u2028two"}\r\n{"prompt": "three"}\n', encoding="utf-8", newline="")
    found = read_prompts(None, file, raw=False)
    assert found == [(Message("user", "one\u2028two"),), (Message("user", "three"),)]


@pytest.mark.parametrize(("text", "file"), [(None, None), ("Hello", Path("prompts.jsonl"))])
def test_exactly_one_of_text_and_file_is_given(text: str | None, file: Path | None) -> None:
    with pytest.raises(BadOption, match=r"Give either --prompt TEXT or --prompts FILE\.jsonl\."):
        read_prompts(text, file, raw=False)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_prompt_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="--prompt: the prompt is empty"):
        read_prompts(text, None, raw=False)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "line 2 is not valid JSON. Write one object a line"),
        ("Hello", "line 2 is not valid JSON"),
        ("[]", 'line 2 needs "prompt": "..." or "messages"'),
        ("{}", 'line 2 needs "prompt"'),
        ('{"prompt": 7}', 'line 2 needs "prompt"'),
        ('{"prompt": " "}', "line 2: the prompt is empty"),
        ('{"messages": []}', 'line 2 needs "prompt"'),
        ('{"messages": "Hello"}', 'line 2 needs "prompt"'),
        ('{"messages": ["Hello"]}', "line 2: a message needs a role"),
        ('{"messages": [{"role": "robot", "content": "Hello"}]}', "line 2: a message needs a role"),
        ('{"messages": [{"role": "user"}]}', "line 2: a message needs a role"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path: Path, line: str, sentence: str) -> None:
    with pytest.raises(BadOption) as caught:
        read_prompts(None, file_with(tmp_path, '{"prompt": "Hello"}', line), raw=False)
    assert sentence in str(caught.value)
    assert "prompts.jsonl" in str(caught.value)


def test_a_chat_cannot_be_sent_raw(tmp_path: Path) -> None:
    file = file_with(tmp_path, '{"messages": [{"role": "user", "content": "Hello"}]}')
    with pytest.raises(BadOption, match="with --raw give a prompt"):
        read_prompts(None, file, raw=True)


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="Write one object a line, such as"):
        read_prompts(None, file_with(tmp_path, "", "  "), raw=False)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    binary = tmp_path / "prompts.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    for file, reason in (
        (tmp_path / "none.jsonl", r"none\.jsonl cannot be read \(No such file or directory\)"),
        (tmp_path, r"cannot be read \(Is a directory\)"),
        (binary, "is not UTF-8 text"),
    ):
        with pytest.raises(BadOption, match=reason):
            read_prompts(None, file, raw=False)


def test_a_line_may_say_how_its_reply_is_drawn(tmp_path: Path) -> None:
    file = file_with(tmp_path, '{"prompt": "One", "temperature": 1.5, "seed": 7}', '{"prompt": "Two"}')
    one, two = prompts.read_prompts(None, file, True, UNSAID)
    assert (one, two) == (PromptItem("One", SamplingOverride(1.5, 7)), PromptItem("Two"))
    asked = Options(sampling=Sampling(top_k=5, seed=1))
    assert one.options(asked).sampling == Sampling(1.5, top_k=5, seed=7)
    assert two.options(asked) == asked


def test_the_command_line_has_the_last_word_on_sampling(tmp_path: Path) -> None:
    file = file_with(tmp_path, '{"prompt": "One", "temperature": 1.5, "seed": 7}')
    [greedy] = prompts.read_prompts(None, file, True, SamplingOverride(temperature=0.0))
    [seeded] = prompts.read_prompts(None, file, True, SamplingOverride(seed=0))
    assert (greedy.override, seeded.override) == (SamplingOverride(0.0, 7), SamplingOverride(1.5, 0))


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        ('"temperature": "hot"', "line 1: the temperature must be a number and the seed an integer."),
        ('"seed": 1.5', "line 1: the temperature must be a number and the seed an integer."),
        ('"temperature": -1', "line 1: temperature must be from 0 to 100; it is -1."),
        ('"seed": -1', "line 1: seed must be from 0 to 2^63-1; it is -1."),
    ],
)
def test_impossible_sampling_in_a_line_is_named_with_its_number(
    tmp_path: Path, sampling: str, words: str
) -> None:
    with pytest.raises(BadOption) as caught:
        read_prompts(None, file_with(tmp_path, f'{{"prompt": "One", {sampling}}}'), raw=True)
    assert str(caught.value).endswith(words)


def test_without_files_all_the_shipped_sets_are_read() -> None:
    sets = read_sets([], False, UNSAID)
    assert tuple(one.name for one in sets) == SHIPPED_SETS
    assert all(len(one.prompts) == 12 for one in sets)
    assert len({asked.prompt for one in sets for asked in one.prompts}) == 12 * len(sets)
    hot = {one.name for one in sets for asked in one.prompts if asked.override.temperature}
    assert hot == {"random"}
    assert len({asked.override.seed for asked in sets[-1].prompts}) == 12, (
        "one noise for all would repeat itself"
    )


def test_sets_are_named_after_their_files_and_told_apart_by_their_folders(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    one, two = file_with(tmp_path, '{"prompt": "One"}'), file_with(tmp_path / "more", '{"prompt": "Two"}')
    assert [found.name for found in read_sets([one], True, UNSAID)] == ["prompts"]
    assert [found.name for found in read_sets([one, two], True, UNSAID)] == [str(one), str(two)]


def test_halves_of_characters_are_replaced() -> None:
    """Bytes of another encoding come as such from the command line, and escapes from a file."""
    assert read_prompts("caf\udce9", None, False) == [(Message("user", "caf\ufffd"),)]
    assert read_prompts("caf\udce9", None, True) == ["caf\ufffd"]


def test_sampling_options_that_change_nothing_are_refused_by_name() -> None:
    seeded, hot = SamplingOverride(seed=3), [PromptItem("Hello", SamplingOverride(temperature=0.8))]
    require_sampled(Sampling(), SamplingOverride())
    require_sampled(Sampling(0.8, top_p=0.9), seeded)
    require_sampled(Sampling(), seeded, [PromptItem("Hello"), *hot])
    told = "--top-k and --min-p and --seed change nothing at temperature 0. Add --temperature, such as 0.8."
    with pytest.raises(BadOption) as refused:
        require_sampled(Sampling(top_k=5, min_p=0.1), seeded, [PromptItem("Hello")])
    assert str(refused.value) == told
