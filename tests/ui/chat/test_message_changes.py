"""What is asked before a message is deleted or the same text is written again."""

import json

from app.ui.chat.view import WARMER
from tests.fakes import ScriptedEngine
from tests.ui.chat.people import SKIPPED, Visitor


def last(person: Visitor) -> int:
    return person.services.conversations.thread(person.state.version.chat, 50).messages[-1].id


def test_deleting_asks_first_and_says_how_much_goes(person: Visitor) -> None:
    person.get("One")
    first = last(person) - 1
    person.get("Two")
    _, question = person.press("ask-delete", first)
    assert "the 3 messages that follow it" in question and "cannot be undone" in question
    assert person.press("delete", last(person)) == (SKIPPED, "")
    assert "Two" in person.look().thread
    person.press("delete", first)
    assert person.look().is_empty
    person.get("Three")
    assert "Three" in person.look().thread


def test_a_fork_is_the_chat_on_the_page_then(person: Visitor) -> None:
    person.get("One")
    before = person.state.version.chat
    person.press("fork", last(person))
    assert person.state.version.chat not in (0, before)
    assert person.services.chat == person.state.version.chat
    assert "One" in person.look().thread


def test_a_reply_is_edited_in_place(person: Visitor) -> None:
    person.get("One")
    person.press("edit-reply", last(person), "My own words")
    thread = person.look().thread
    assert "My own words" in thread and "Edited by you." in thread and "2/2" in thread


def test_the_same_text_is_not_written_again_unasked(person: Visitor, engine: ScriptedEngine) -> None:
    person.get("One")
    _, question = person.press("regenerate", last(person))
    assert "the same prompt gives the same text" in question
    assert len(engine.requests) == 1
    pending = json.dumps(["regenerate", str(last(person)), ""])
    person.press("same", "", pending)
    person.wait()
    person.press("warmer", "", pending)
    person.wait()
    assert [request.options.sampling.temperature for request in engine.requests] == [0, 0, WARMER]


def test_another_decoder_or_temperature_asks_nothing(person: Visitor, engine: ScriptedEngine) -> None:
    person.get("One")
    person.controls = person.controls._replace(lookahead=False)
    assert person.press("regenerate", last(person)) == (SKIPPED, "")
    person.wait()
    person.controls = person.controls._replace(temperature=0.5)
    assert person.press("regenerate", last(person)) == (SKIPPED, "")
    person.wait()
    assert len(engine.requests) == 3
