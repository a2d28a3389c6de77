"""The meter below the message box, and the question before anything of a chat is left out."""

import json
import re
from dataclasses import replace
from html import unescape

import pytest

from app.conversation import ContextFit
from app.ui.chat.context_meter import in_words, meter_html, overflow_html
from app.ui.frame.gradio_internals import Press
from app.values.messages import EngineStatus
from tests.fake_documents import ScriptedDocuments
from tests.fakes import DEMO, ScriptedEngine
from tests.ui.chat.people import Visitor

LONG = " ".join(f"word{number}" for number in range(100))


def narrow(engine: ScriptedEngine) -> None:
    engine.words.context, engine.now = 24, EngineStatus("ready", model=replace(DEMO, context=24))


def test_its_beginning_is_sent_and_the_rest_stays_in_the_box(person: Visitor, engine: ScriptedEngine) -> None:
    narrow(engine)
    _, question = person.ask(LONG)
    assert "Send its beginning" in question and "Attach it" in question and "Use another model" in question
    rest, question = person.press("cut", "", json.dumps(["ask", "", LONG]))
    assert question == ""
    person.wait()
    sent = engine.requests[0].prompt[-1].content
    assert f"{sent} {rest}" == LONG and len(sent) > 20


def test_it_is_attached(person: Visitor, engine: ScriptedEngine, documents: ScriptedDocuments) -> None:
    narrow(engine)
    person.ask(LONG)
    assert person.press("attach", "", json.dumps(["ask", "", LONG])) == ("", "")
    assert engine.requests == [] and len(documents.kept) == 1


def test_a_chat_that_grew_too_long_is_asked_about_as_before(person: Visitor, engine: ScriptedEngine) -> None:
    for _ in range(3):
        person.get("Question")
    narrow(engine)
    _, question = person.ask("One more question")
    assert "oldest messages" in question and "Send its beginning" not in question


ROOMY = ContextFit(120, 1024, 256, 0, 120)
FULL = ContextFit(900, 1024, 256, 4, 300)


def actions(html: str) -> list[str]:
    return re.findall(r'data-do="([a-z]+)"', html)


def test_the_meter_says_how_much_of_the_context_is_used() -> None:
    assert in_words(ROOMY, documents="plus documents") == f"{in_words(ROOMY)}, plus documents"
    html = meter_html(ROOMY)
    assert 'value="0.1172"' in html
    assert "<span>Chat length: 120 of 1,024 tokens</span>" in html
    assert "full" not in html


def test_a_chat_that_is_too_long_is_told_before_it_is_sent() -> None:
    assert 'class="meter full"' in meter_html(FULL)
    assert in_words(FULL) == (
        "Chat length: 900 of 1,024 tokens: too long with 256 reserved for the reply. "
        "You will be asked whether to leave out the 4 oldest messages."
    )
    assert in_words(ContextFit(9337, 8192, 256)) == (
        "The chat has 9,337 tokens, and the model reads at most 8,192. You will be asked what to leave out."
    )


@pytest.mark.parametrize(
    ("fit", "choices"),
    [
        (FULL, ["oldest", "shorter", "new", "no"]),
        (ContextFit(1020, 1024, 256, 4, 300), ["oldest", "new", "no"]),
        (ContextFit(900, 1024, 256, 0, 900), ["shorter", "cut", "attach", "no", "no"]),
        (ContextFit(5000, 1024, 256, 2, 4000), ["cut", "attach", "no", "no"]),
    ],
)
def test_only_what_helps_is_offered(fit: ContextFit, choices: list[str]) -> None:
    assert actions(overflow_html(fit, Press("ask", "", "Hi"))) == choices


def test_a_button_carries_the_action_that_waits() -> None:
    pending = Press("edit", "7", "Is <it> \"so\"?\nYes & 'no'.")
    html = overflow_html(FULL, pending)
    values = re.findall(r'data-value="([^"]*)"', html)
    assert [Press(*json.loads(unescape(value))) for value in values[:2]] == [pending, pending]


def test_the_question_says_the_numbers() -> None:
    html = overflow_html(FULL, Press("ask"))
    assert "has 900 tokens. With 256 reserved for the reply" in html
    assert "Leave out the 4 oldest messages" in html
    assert "Reply with at most 124 tokens" in html
    assert "This message is too long" not in html


def test_what_is_left_out_by_agreement_is_said_and_no_alarm() -> None:
    fit = ContextFit(1100, 1024, 256, left_out=4, kept_tokens=500)
    assert (
        in_words(fit, leaves_out=True)
        == "Chat length: 500 of 1,024 tokens: the 4 oldest messages are not sent."
    )
    assert 'class="meter"' in meter_html(fit, leaves_out=True)
    assert 'class="meter full"' in meter_html(ContextFit(1100, 1024, 256, 4, 1000), leaves_out=True)
