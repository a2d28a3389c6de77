"""The markers of thoughts are read off a chat template, whatever they are."""

import pytest

from app.conversation.thought_parsing import split_thought
from app.engine.text.detokenizer import ThoughtText, begun_text
from app.engine.text.sandbox import chat_format_here
from app.values.chat_format import CallFormat, ReplyFormat, first_marker
from tests.engine.families import FAMILIES

START = "{% for m in messages %}<|{{ m.role }}|>"
END = "{{ m.content }}<|end|>{% endfor %}"
ASKS = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
TEMPLATES = {
    ("<think>", "</think>"): START
    + "{% if m.reasoning_content %}\n<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    + END
    + ASKS,
    ("<x:think>", "</x:think>"): START
    + "{% if m.reasoning %}<x:think>{{ m.reasoning }}</x:think>{% endif %}"
    + END
    + ASKS,
    (
        "[THINK]",
        "[/THINK]",
    ): "Think first: [THINK]so[/THINK] and answer.[INST]{{ messages[0].content }}[/INST]",
    ("<|channel>thought", "<channel|>"): START
    + "{% if m.tool_calls and m.reasoning_content %}<|channel>thought\n{{ m.reasoning_content }}\n<channel|>"
    + "{% endif %}"
    + END
    + ASKS,
    ("<|channel|>analysis<|message|>", "<|end|>"): START
    + "{% if m.thinking %}<|channel|>analysis<|message|>{{ m.thinking }}<|end|><|start|>assistant"
    + "<|channel|>final<|message|>{% endif %}"
    + END
    + ASKS,
    ("Here are my steps:", "[BEGIN ANSWER]"): START
    + "\n{% if m.reasoning_content %}{{ m.reasoning_content }}\n[BEGIN ANSWER]\n{% endif %}"
    + END
    + ASKS
    + "{% if add_generation_prompt %}{{ '\n' }}Here are my steps:{% endif %}",
    ("", ""): START + END + ASKS,
}


@pytest.mark.parametrize(("markers", "template"), TEMPLATES.items(), ids=lambda value: str(value)[:24])
def test_markers_are_read_off_the_template(markers: tuple[str, str], template: str) -> None:
    reply = chat_format_here(template, {}, []).reply
    assert (reply.thought_opening, reply.thought_closing) == markers


def test_an_empty_thought_of_the_prompt_shows_the_markers() -> None:
    off = START + END + ASKS + "{% if enable_thinking is false %}<think></think>{% endif %}"
    assert chat_format_here(off, {}, []).reply.thought_opening == "<think>"
    assert chat_format_here(START + END + ASKS + "</think>", {}, []).reply.thought_closing == "</think>"


def test_a_prompt_that_ends_with_the_opening_marker_opens_the_thought() -> None:
    reply = chat_format_here(START + END + ASKS + "<think>\n", {}, []).reply
    assert reply.is_opened_by("<|user|>Hi<|end|><|assistant|><think>\n")
    assert not reply.is_opened_by("<|user|>What is <think>?<|end|><|assistant|><think>\n\n</think>\n\n")
    assert not chat_format_here(START + END + ASKS, {}, []).reply.is_opened_by("Hi")


def test_words_that_open_every_answer_are_not_shown() -> None:
    template = START + "{% if m.role == 'assistant' %}all\n{% endif %}" + END + ASKS
    reply = chat_format_here(template, {}, []).reply
    assert reply.answer_opening == "all\n"
    for pieces in (["all\nall\nHi"], list("all\nall\nHi")):
        text = ThoughtText(reply)
        assert "".join([*map(text.push, pieces), text.flush()]) == "all\nHi"
    unlike = ThoughtText(reply)
    assert unlike.push("al") + unlike.push("so") + unlike.flush() == "also"
    assert begun_text(reply, "Hi", "", str) == "all\nHi", "it is continued as it was written"


def test_a_marker_that_begins_earlier_wins_however_the_text_is_cut() -> None:
    markers = (" to=self<|message|>", "to=")
    assert first_marker("So to=s", markers) == (2, "")
    assert first_marker("So to=self<|message|>", markers) == (2, " to=self<|message|>")
    assert first_marker("So to=x", markers) == (3, "to=")


RESPONSE = (
    START
    + "{% if m.role == 'assistant' %}{% if m.thinking %}<|open|>think<|sep|>{{ m.thinking }}<|close|>think<|sep|>"
    + "{% endif %}<|open|>response<|sep|>{{ m.content }}<|close|>response<|sep|><|end|>"
    + "{% else %}{{ m.content }}<|end|>"
    + "{% endif %}{% endfor %}"
    + ASKS
    + "{% if add_generation_prompt %}<|open|>think<|sep|>{% endif %}"
)


def test_an_answer_may_begin_although_the_prompt_has_opened_a_thought() -> None:
    reply = chat_format_here(RESPONSE, {}, []).reply
    assert reply.answer_header == "<|open|>response<|sep|>"
    answer = "<|open|>response<|sep|>Yes.<|close|>response<|sep|>"
    for text, seen in (
        (answer, "Yes."),
        (f"Hm.<|close|>think<|sep|>{answer}", "<think>\nHm.</think>Yes."),
        ("<|open|>x", "<think>\n<|open|>x"),
        ("Say <|open|>response<|sep|>?", "<think>\nSay <|open|>response<|sep|>?"),
    ):
        for pieces in ([text], list(text)):
            written = ThoughtText(reply, True)
            assert "".join([*map(written.push, pieces), written.flush()]) == seen


def test_a_begun_answer_without_a_thought_closes_the_one_that_the_prompt_opens() -> None:
    reply, opened = chat_format_here(RESPONSE, {}, []).reply, "Hi<|open|>think<|sep|>"
    assert begun_text(reply, "Yes", opened, str) == "<|close|>think<|sep|><|open|>response<|sep|>Yes"
    assert begun_text(reply, "Hm.\n</think>\n\nYes", opened, str) == "Hm.\n</think>\n\nYes", "an old reply"


GLM = (
    "{% for m in messages %}<|{{ m.role }}|>\n{% if m.role == 'assistant' %}"
    "<think>{{ m.reasoning_content }}</think>"
    "{% if m.content %}{{ '\n' + m.content }}{% endif %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>"
    "{% if enable_thinking is false %}{{ '\n<think></think>' }}{% endif %}{% endif %}"
)


def test_line_ends_after_a_thought_that_the_prompt_closes_are_not_part_of_the_answer() -> None:
    reply = chat_format_here(GLM, {}, []).reply
    assert reply.thought_end == "</think>\n"
    assert rewritten(reply, "\nYes.\n\nNo.\n") == rewritten(reply, "\n\nYes.\n\nNo.\n") == "Yes.\n\nNo.\n"
    assert rewritten(reply, "\n<think>\nHm.</think>\nYes.") == "<think>\nHm.</think>\nYes."
    assert rewritten(ReplyFormat(), "\nYes.") == "\nYes.", "a model that does not think"
    assert begun_text(reply, "Yes", "<|assistant|>\n<think></think>", str) == "\nYes", "as it was written"
    assert begun_text(reply, "Yes", "<|assistant|>", str) == "Yes"


def test_control_tokens_are_markers_if_the_template_shows_none() -> None:
    silent = START + END + ASKS
    harmony = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>"]
    text = ThoughtText(chat_format_here(silent, {}, harmony).reply)
    written = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes."
    assert "".join([*map(text.push, written), text.flush()]) == "<think>Hm.</think>Yes."
    assert chat_format_here(silent, {}, ["[THINK]", "[/THINK]"]).reply.thought_opening == "[THINK]"
    assert not chat_format_here(silent, {}, ["<|end|>", "<|message|>", "[THINK]"]).reply.thought_opening


def rewritten(form: ReplyFormat, text: str) -> str:
    """The text, the same however it is cut."""
    found = set[str]()
    for pieces in ([text], list(text)):
        reply = ThoughtText(form)
        found.add("".join([*map(reply.push, pieces), reply.flush()]))
    (one,) = found
    return one


def test_a_call_without_an_end_tag_may_spell_the_markers_of_thoughts() -> None:
    calls = CallFormat("json", before_name="[TOOL_CALLS]", after_name="[ARGS]")
    form = ReplyFormat("[THINK]", "[/THINK]", calls=calls)
    call = '[TOOL_CALLS]f[ARGS]{"a": "[/THINK] [THINK]"}'
    assert rewritten(form, f"[THINK]Hm.[/THINK]{call}") == f"<think>Hm.</think>{call}"


WRAPPED = {
    "shown": START
    + "{% if m.role == 'assistant' %}{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n"
    + "{% endif %}<answer>\n{{ m.content }}\n</answer><|end|>{% else %}{{ m.content }}<|end|>"
    + "{% endif %}{% endfor %}"
    + ASKS,
    "Hunyuan": "{% for m in messages %}{{ m.content }}{{ '<|eos|>' if m.role == 'assistant' else '<|extra_0|>' }}"
    + "{% endfor %}{% if enable_thinking is false %}<think>\n\n</think>\n{% endif %}",
    "mentioned": "Write <think></think> and <answer></answer>. " + START + END + ASKS,
}


@pytest.mark.parametrize("name", WRAPPED)
def test_tags_around_an_answer_go_with_their_line_breaks(name: str) -> None:
    form = chat_format_here(WRAPPED[name], {}, []).reply
    for thought in ("<think>\nHm.\n</think>\n", ""):
        split = split_thought(rewritten(form, f"{thought}<answer>\nOne.\n\nTwo.\n</answer>"))
        assert (split.thought, split.answer) == ("Hm." if thought else "", "One.\n\nTwo.")


def test_a_message_to_a_tool_that_was_not_offered_is_not_shown() -> None:
    form = chat_format_here(FAMILIES["gpt-oss"].template, {}, []).reply
    thought, final = (
        "<|channel|>analysis<|message|>Hm.<|end|>",
        "<|start|>assistant<|channel|>final<|message|>Yes.",
    )
    for aside in (
        "<|start|>assistant to=container.exec<|channel|>commentary<|message|>ls to=x",
        "<|start|>assistant<|channel|>commentary to=python <|constrain|>code<|message|>ls()",
    ):
        assert rewritten(form, thought + aside) == "<think>Hm.</think>"
        assert rewritten(form, f"{thought}{aside}<|end|>{final}") == "<think>Hm.</think>Yes."


def test_what_closes_all_calls_is_found_though_one_call_alone_is_left_open() -> None:
    """As the templates of DeepSeek V3 and R1 write calls."""
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{% for c in m.tool_calls %}{{ '<calls>' if loop.first }}"
        "<call>{{ c.function.name }}<sep>{{ c.function.arguments | tojson }}</call>"
        "{{ '</calls><end>' if not loop.first }}{% else %}{{ m.content }}<end>{% endfor %}{% endfor %}"
    )
    calls = chat_format_here(template, {}).reply.calls
    assert (calls.begin, calls.after_arguments, calls.end) == ("<calls>", "</call>", "</calls>")
