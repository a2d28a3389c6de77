"""What goes into the Chatbot: nothing lost, nothing fetched, failures in the reply's place."""

import gradio as gr
import pytest

from app.conversation import ReplyState
from app.ui.chatbot_format import answer_text, chatbot_messages, escape_markdown, safe_markdown

CODE = "    indented\n\ttabbed\n```html\n<b>![x](http://a/x.png)</b>\n```\nand `<i>`"


def answered(text: str) -> ReplyState:
    return ReplyState(phase="finished", text=text)


def test_a_question_is_shown_before_its_answer_is_complete() -> None:
    writing = ReplyState(phase="decoding", text="Hel")
    messages = chatbot_messages([("hi", answered("Hello")), ("again", writing)])
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


def test_indentation_and_tabs_survive_the_chatbot() -> None:
    text = "a\n    b\n\tc"
    [_, answer] = chatbot_messages([("hi", answered(text))])
    shown = gr.Chatbot().postprocess([answer])
    assert shown.root[0].content[0].text == text


def test_a_failed_answer_keeps_what_was_written_and_says_why() -> None:
    failed = ReplyState(phase="failed", text="Half of", note="Memory ran out.")
    assert answer_text(failed) == "Half of\n\n> Memory ran out."
    assert answer_text(ReplyState(phase="failed", note="Memory ran out.")) == "> Memory ran out."


def test_a_failure_inside_a_code_block_stands_outside_it() -> None:
    failed = ReplyState(phase="failed", text="```\ncode", note="Memory ran out.")
    assert answer_text(failed) == "```\ncode\n```\n\n> Memory ran out."


def test_an_answer_without_a_word_is_said_to_be_one() -> None:
    assert "without a word" in answer_text(answered(""))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("![x](http://a/x.png)", r"\![x](http://a/x.png)"),
        ("![x][ref]", r"\![x][ref]"),
        ('<img src="http://a">', r'\<img src="http://a">'),
        ("</b><!-- x -->", r"\</b>\<!-- x -->"),
        ("1 < 2 and a <b", r"1 < 2 and a \<b"),
    ],
)
def test_images_and_tags_show_as_written(written: str, shown: str) -> None:
    assert safe_markdown(written) == shown


def test_code_is_left_alone() -> None:
    assert safe_markdown(CODE) == CODE
    assert safe_markdown("```\n<open") == "```\n<open"


def test_text_after_code_is_not_taken_for_code() -> None:
    assert safe_markdown("    code\n<b> `x` <i>") == "    code\n\\<b> `x` \\<i>"


def test_escaped_text_has_no_markdown_left() -> None:
    assert escape_markdown("a*b_[c](d)") == r"a\*b\_\[c\]\(d\)"
