"""The training data of the demo model, from small hand-made sources."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from app.values.messages import Message
from tools.demo_model.conversations import Conversation, alternating, clean, from_the_user_on, pair
from tools.demo_model.dialogues import task_dialogues
from tools.demo_model.introductions import GREETINGS, introductions
from tools.demo_model.made_up_facts import made_up_fact
from tools.demo_model.passages import Library, split_sentences
from tools.demo_model.prepare import write_conversations
from tools.demo_model.quoting import content_words, quoting_prompt, quoting_tasks
from tools.demo_model.shell_commands import Page, command_questions, parse_page

TAR_PAGE = """# tar

> Archiving utility.
> More information: <https://example.org>.

- Extract an archive:

`tar xf {{path/to/file}}`
"""


def library() -> Library:
    book = ["The white rabbit carried a golden watch.", "Dorothy walked along the yellow road."]
    return Library([book], [["I like long walks by the river very much."]], parse_page(TAR_PAGE), Counter())


def test_cleaning_makes_quotes_and_spaces_plain() -> None:
    assert clean("  \u201cIt\u2019s\u201d \t here\u2026 ") == '"It\'s" here...'


def test_what_one_side_says_twice_becomes_one_message() -> None:
    spoken = alternating([("user", "Hi"), ("user", " there"), ("assistant", "Hello")])
    assert spoken == [Message("user", "Hi there"), Message("assistant", "Hello")]


def test_an_assistants_opening_line_is_left_out() -> None:
    messages = [Message("assistant", "Welcome"), Message("user", "Hi")]
    assert from_the_user_on(messages) == messages[1:]
    assert from_the_user_on([]) == []


def test_task_dialogues_are_cut_and_named_for_their_set(tmp_path: Path) -> None:
    turns = [{"role": role, "content": "x"} for role in ["assistant", *["user", "assistant"] * 20]]
    for folder, name in [("sgd", "sgd_turns"), ("taskmaster4", "tm4_turns")]:
        (tmp_path / folder).mkdir()
        with gzip.open(tmp_path / folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.write(json.dumps({"messages": turns}) + "\n" + json.dumps({"messages": turns[:2]}) + "\n")
    found = list(task_dialogues(tmp_path))
    assert [(c.source, len(c.messages), c.messages[0].role) for c in found] == [
        ("sgd", 16, "user"),
        ("taskmaster4", 16, "user"),
    ]


def test_a_page_becomes_a_name_a_description_and_examples() -> None:
    expected = Page("tar", "Archiving utility.", (("Extract an archive", "tar xf path/to/file"),))
    assert parse_page(TAR_PAGE) == [expected]
    assert parse_page("no page at all") == []


def test_a_page_becomes_what_and_how_questions() -> None:
    what, how = command_questions(parse_page(TAR_PAGE), random.Random(0))
    assert "tar" in what.messages[0].content
    assert what.messages[1].content == (
        "Archiving utility. For example, to extract an archive: `tar xf path/to/file`"
    )
    assert "extract an archive" in how.messages[0].content
    assert how.messages[1].content == "`tar xf path/to/file`"


def test_the_quoting_prompt_is_the_apps_prompt_form() -> None:
    assert quoting_prompt([["One.", "More."], ["Two."]], "Where?") == (
        "Answer from the sources and cite them like [1].\n\n[1] One. More.\n\n[2] Two.\n\nQuestion: Where?"
    )


def test_a_quoted_sentence_stands_in_the_source_whose_number_is_cited() -> None:
    for task in quoting_tasks(library(), 100, random.Random(1)):
        prompt, answer = (message.content for message in task.messages)
        if answer.startswith("The sources do not mention"):
            continue
        sentence, number = answer[:-4], answer[-3:]
        source = next(block for block in prompt.split("\n\n") if block.startswith(number))
        assert sentence in source


def test_a_word_that_stands_elsewhere_too_is_not_asked_for() -> None:
    words = content_words("Dorothy saw the rabbit run.", "the rabbit slept", library())
    assert words == ["Dorothy"]


def test_the_same_seed_gives_the_same_data() -> None:
    def made(seed: int) -> list[Conversation]:
        rng = random.Random(seed)
        return [*quoting_tasks(library(), 20, rng), *introductions(rng)]

    assert made(3) == made(3)
    assert made(3) != made(4)
    assert made_up_fact(random.Random(5)) == made_up_fact(random.Random(5))


def test_fragments_and_endless_sentences_are_no_sentences() -> None:
    good = "This sentence has a good length indeed."
    assert split_sentences(f"Too short. {good} {'Very ' * 80}long.") == [good]


def test_a_conversation_is_one_line_of_json(tmp_path: Path) -> None:
    write_conversations([pair("greeting", *GREETINGS[0])], tmp_path / "out.jsonl")
    (line,) = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == {
        "source": "greeting",
        "messages": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hello! How can I help you today?"},
        ],
    }


def test_batches_deal_out_every_row_once_and_hold_out_the_last() -> None:
    torch = pytest.importorskip("torch")
    from tools.demo_model.batches import held_out, training_batches

    ids = torch.arange(10 * 4 + 1, dtype=torch.int32)
    batches = training_batches(ids, length=4, rows=2)
    epoch = [next(batches) for _ in range(3)]
    starts = sorted(int(row[0]) for batch in epoch for row in batch.inputs)
    assert starts == [0, 4, 8, 12, 16, 20]
    assert all(torch.equal(batch.targets, batch.inputs + 1) for batch in epoch)
    assert held_out(ids, 4).inputs[0, 0] == 24
    with pytest.raises(ValueError, match="at least 9 rows"):
        next(training_batches(ids, length=4, rows=9))


def test_the_learning_rate_warms_up_stays_and_falls() -> None:
    pytest.importorskip("torch")
    from tools.demo_model.training import rate_factor

    assert rate_factor(0, 0.0) == pytest.approx(1 / 80)
    assert rate_factor(79, 0.49) == 1.0
    assert rate_factor(500, 0.75) == pytest.approx(0.5)
    assert rate_factor(500, 0.999) == 0.02
