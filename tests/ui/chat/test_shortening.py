"""A first message that is too long is cut, attached, or kept for another model."""

import json
from dataclasses import replace

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
