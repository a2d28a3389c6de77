"""The chat's events: the right action runs, only what changed is drawn, and nothing typed is lost."""

import json
import re
from dataclasses import replace
from html import unescape
from math import inf
from typing import Any

import pytest

from app.ui.chat.view import WARMER
from app.ui.frame.option_controls import to_values
from app.values.messages import EngineStatus, Options, Sampling
from tests.fakes import DEMO, ScriptedEngine
from tests.support.waiting import until
from tests.ui.chat.people import SKIPPED, Visitor, pressed


def last(person: Visitor) -> int:
    return person.services.conversations.thread(person.state.version.chat, 50).messages[-1].id


def test_a_message_is_deleted_with_those_after_it_and_all_come_back(person: Visitor) -> None:
    person.get("One")
    first = last(person) - 1
    person.get("Two")
    before = person.look().thread
    assert person.press("delete", first) == (SKIPPED, "")
    assert person.look().is_empty
    newest = person.services.deletions.newest()
    assert newest and newest.message == "The message and the 3 messages after it were deleted."
    person.services.deletions.undo()
    assert person.look().thread == before
    person.press("delete", last(person))
    assert "Two" in person.look().thread
    person.get("Three")
    person.services.deletions.undo()
    assert "Three" not in person.look().thread, "the path that was shown is shown again"


def test_a_fork_is_the_chat_on_the_page_then(person: Visitor) -> None:
    person.get("One")
    before = person.state.version.chat
    person.press("fork", last(person))
    assert person.state.version.chat not in (0, before)
    assert person.services.chat == person.state.version.chat
    thread = person.look().thread
    assert "One" in thread and f'Forked from <a href="#/chat/{before}" dir="auto">One</a>' in thread


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


def test_an_address_opens_its_chat_and_a_new_one(person: Visitor) -> None:
    person.get("One")
    chat = person.state.version.chat
    person.actions.open_chat(person.state, pressed("open", 0))
    assert (person.state.version.chat, person.services.chat) == (0, 0)
    person.actions.open_chat(person.state, pressed("open", chat))
    assert (person.state.version.chat, person.services.chat) == (chat, chat)
    assert person.heard == []


def test_an_address_of_a_chat_that_is_gone_says_so_and_shows_a_new_one(person: Visitor) -> None:
    person.get("One")
    person.actions.open_chat(person.state, pressed("open", 4711))
    assert (person.state.version.chat, person.services.chat) == (0, 0)
    assert len(person.heard) == 1
    person.actions.open_chat(person.state, pressed("open", "nonsense"))
    assert person.state.version.chat == 0


def test_each_chat_has_its_own_draft(person: Visitor) -> None:
    person.get("One")
    chat = person.state.version.chat
    person.actions.type(person.state, "For this")
    person.actions.new_chat(person.state)
    person.actions.type(person.state, "For this chat")  # its event comes late
    assert person.draft == ""
    person.actions.turn_to(person.state, str(chat), "For this chat", person.state.opened)
    person.actions.type(person.state, "For a new one")
    person.actions.open_chat(person.state, pressed("open", chat))
    assert person.draft == "For this chat"
    person.actions.turn_to(person.state, "0", "For a new one", person.state.opened)
    assert person.state.draft == "For this chat"
    person.actions.open_chat(person.state, pressed("open", 0))
    assert person.draft == "For a new one"


def test_what_is_typed_before_a_new_page_is_drawn_stays(person: Visitor) -> None:
    person.state.opened += 1  # as a new page opens the last chat
    person.actions.turn_to(person.state, "", "Too early", person.state.opened)
    assert person.services.conversations.drafts.of(0) == "Too early"
    person.actions.type(person.state, "Too early?")
    assert person.services.conversations.drafts.of(0) == "Too early?"


def test_what_was_sent_is_no_draft_even_if_its_last_key_comes_late(person: Visitor) -> None:
    person.actions.type(person.state, "On")
    person.get("One")
    person.actions.type(person.state, "One")
    assert person.services.conversations.drafts.of(0) == ""
    assert person.services.conversations.drafts.of(person.state.version.chat) == ""


def test_a_private_chat_that_is_not_begun_keeps_no_draft(person: Visitor) -> None:
    person.actions.new_private_chat(person.state)
    person.actions.type(person.state, "A secret")
    assert person.draft == ""
    person.actions.turn_to(person.state, "0", "", person.state.opened)
    person.actions.type(person.state, "A secret")
    assert person.services.conversations.drafts.of(0) == ""
    person.actions.new_chat(person.state)
    person.actions.turn_to(person.state, "private", "A secret", person.state.opened)
    assert person.draft == ""


KEPT = (SKIPPED, "")
"""The box as it is, and no question."""
SENT = ("", "")
SAMPLED = Options(Sampling(temperature=0.8, seed=4))


@pytest.fixture
def narrow(person: Visitor, engine: ScriptedEngine) -> Visitor:
    """Somebody whose model has little room: their next message of ten words does not fit any more."""
    engine.text = "b " * 30
    person.get("a " * 30)
    engine.words.context = 100
    person.controls = to_values(Options(max_new_tokens=30))
    return person


def test_a_message_is_sent_with_what_the_controls_hold(person: Visitor, engine: ScriptedEngine) -> None:
    person.controls = person.controls._replace(lookahead=False, temperature=0.5, max_new_tokens=9)
    assert person.ask("  hello ") == SENT
    [request] = engine.requests
    assert request.prompt[-1].content == "hello"  # type: ignore[union-attr]
    assert request.options.decoding.decoder == "plain"
    assert (request.options.sampling.temperature, request.options.max_new_tokens) == (0.5, 9)


def test_a_chat_begins_with_its_first_message_and_goes_on_with_the_next(person: Visitor) -> None:
    person.get("One")
    chat = person.state.version.chat
    assert person.services.chat == chat > 0
    person.get("Two")
    assert person.state.version.chat == chat
    assert person.texts[::2] == ["One", "Two"]


def test_an_example_is_a_message_at_temperature_0(person: Visitor, engine: ScriptedEngine) -> None:
    person.controls = person.controls._replace(temperature=0.7)
    assert person.press("starter", "0", "An example?") == (SKIPPED, "")
    assert person.texts[0] == "An example?"
    assert engine.requests[0].options.sampling.temperature == 0


def test_a_blank_message_is_not_sent(person: Visitor, engine: ScriptedEngine) -> None:
    assert person.ask(" \n") == KEPT
    assert engine.requests == []


def test_a_wrong_box_stops_no_message_and_its_last_valid_value_is_used(
    person: Visitor, engine: ScriptedEngine
) -> None:
    person.services.change_options(lambda _: Options(max_new_tokens=7))
    person.controls = person.controls._replace(max_new_tokens=-1, top_k=None)
    assert person.ask("hello") == SENT
    assert person.heard == []
    person.wait()
    assert engine.requests[0].options.max_new_tokens == 7


def test_messages_during_a_reply_wait_and_are_sent_one_after_the_other(
    person: Visitor, engine: ScriptedEngine
) -> None:
    engine.step_limit = 1
    person.ask("one")
    assert person.ask("two") == person.ask("three") == SENT
    assert "2 messages will be sent" in queue_of(person) and len(engine.requests) == 1
    engine.step_limit = inf
    until(lambda: len(person.messages) == 6 and not person.look().is_busy)
    assert person.texts[::2] == ["one", "two", "three"] and queue_of(person) == ""
    assert person.heard == []


def test_a_stop_keeps_the_queue_which_goes_on_when_it_is_sent(
    person: Visitor, engine: ScriptedEngine
) -> None:
    engine.step_limit = 1
    person.ask("one")
    person.ask("two")
    person.ask("three")
    person.actions.stop(person.state)
    person.wait()
    assert "Stopped. 2 messages wait until you send them." in queue_of(person)
    person.press("regenerate", person.messages[-1].id)
    assert "> 2 messages wait until you send them." in queue_of(person), "another reply is written now"
    person.actions.stop(person.state)
    person.wait()
    assert len(engine.requests) == 2
    first, _ = person.services.conversations.queue.of(person.state.version.chat)
    engine.step_limit = inf
    assert person.press("queue-send", first.id, first.text) == KEPT
    until(lambda: len(person.messages) == 6 and not person.look().is_busy)
    assert person.texts[::2] == ["one", "two", "three"]


def test_what_waits_is_edited_in_the_box_moved_and_removed(person: Visitor, engine: ScriptedEngine) -> None:
    engine.step_limit = 1
    person.ask("one")
    for text in ("two", "three", "four"):
        person.ask(text)
    chat = person.state.version.chat
    two, three, four = (one.id for one in person.services.conversations.queue.of(chat))
    person.press("queue-earlier", three)
    assert [one.text for one in person.services.conversations.queue.of(chat)] == ["three", "two", "four"]
    assert person.press("queue-edit", three, "half a thought") == ("two", "")
    assert [one.text for one in person.services.conversations.queue.of(chat)] == [
        "three",
        "half a thought",
        "four",
    ]
    assert person.press("queue-edit", two) == (SKIPPED, ""), "the box was empty"
    assert person.state.box_changes[-1].given == "three"
    person.press("queue-remove", three)
    assert [one.text for one in person.services.conversations.queue.of(chat)] == ["four"]
    person.services.deletions.undo()
    assert [one.text for one in person.services.conversations.queue.of(chat)] == ["half a thought", "four"]
    person.press("queue-remove", four)
    assert [one.text for one in person.services.conversations.queue.of(chat)] == ["half a thought"]
    person.actions.stop(person.state)


def test_a_removed_message_that_is_put_back_is_not_sent_by_itself(
    person: Visitor, engine: ScriptedEngine
) -> None:
    engine.step_limit = 1
    person.ask("one")
    person.ask("two")
    queue = person.services.conversations.queue
    [waiting] = queue.of(person.state.version.chat)
    person.press("queue-remove", waiting.id)
    engine.step_limit = inf
    person.wait()
    person.services.deletions.undo()
    assert "The reply has ended. 1 message waits until you send it." in queue_of(person)
    assert queue.of(person.state.version.chat) == (waiting,) and len(engine.requests) == 1


def test_what_is_typed_while_a_message_is_sent_is_the_next_draft(
    person: Visitor, engine: ScriptedEngine
) -> None:
    submit = engine.submit

    def type_first(*request: Any) -> None:
        person.actions.type(person.state, "Typed meanwhile")
        submit(*request)

    engine.submit = type_first  # type: ignore[method-assign]
    person.actions.type(person.state, "One")
    person.get("One")
    drafts = person.services.conversations.drafts
    assert drafts.of(person.state.version.chat) == person.state.draft == "Typed meanwhile"
    assert drafts.of(0) == ""


def test_a_private_message_leaves_the_draft_of_the_new_chat(person: Visitor) -> None:
    person.actions.type(person.state, "For a new chat")
    person.actions.turn_to(person.state, "0", "For a new chat", person.state.opened)
    person.actions.new_private_chat(person.state)
    person.get("Secret")
    assert person.services.conversations.drafts.of(0) == "For a new chat"


def queue_of(person: Visitor) -> str:
    """The messages that wait, as the page shows them."""
    return str(person.look().parts["queue"])


def test_a_page_that_fell_behind_is_told_and_keeps_its_text(person: Visitor, other: Visitor) -> None:
    person.get("One")
    other.state.open_chat(person.state.version)
    person.get("Two")
    assert other.ask("Overwrite") == KEPT
    assert "was changed in another window" in other.heard[0]
    other.look()
    assert other.ask("After looking") == SENT


def choices(question: str) -> dict[str, str]:
    """The buttons of a question: action -> what it carries."""
    found = re.findall(r'data-do="(\w+)" data-name="" data-value="([^"]*)"', question)
    return {action: unescape(value) for action, value in found}


def test_a_chat_that_is_too_long_asks_and_keeps_the_text(narrow: Visitor, engine: ScriptedEngine) -> None:
    box, question = narrow.ask("c " * 10)
    assert box == SKIPPED
    assert list(choices(question)) == ["oldest", "summarise", "shorter", "new", "no"]
    assert len(engine.requests) == 1
    assert narrow.press("no") == KEPT
    assert narrow.heard == []


def test_the_oldest_are_left_out_when_the_person_says_so(narrow: Visitor, engine: ScriptedEngine) -> None:
    _, question = narrow.ask("c " * 10)
    assert narrow.press("oldest", value=choices(question)["oldest"]) == SENT
    assert [len(message.content.split()) for message in engine.requests[-1].prompt] == [10]  # type: ignore[union-attr]
    narrow.wait()
    assert "cut-line" in narrow.look().thread
    assert len(narrow.texts) == 4, "nothing is deleted"


def test_the_oldest_are_summarised_when_the_person_says_so(narrow: Visitor, engine: ScriptedEngine) -> None:
    _, question = narrow.ask("c " * 10)
    assert narrow.press("summarise", value=choices(question)["summarise"]) == SENT
    narrow.wait()
    assert len(engine.requests) == 3 and len(narrow.texts) == 4
    assert "Summary, which the model reads" in narrow.look().thread
    narrow.press("remove-summary", narrow.messages[1].id)
    assert "Summary, which the model reads" not in narrow.look().thread
    narrow.services.deletions.undo()
    assert "Summary, which the model reads" in narrow.look().thread


def test_a_chat_too_long_to_be_regenerated_asks_each_question_once(
    narrow: Visitor, engine: ScriptedEngine
) -> None:
    context, engine.words.context = engine.words.context, 1000
    narrow.get("c " * 10)
    engine.words.context = context
    _, same = narrow.press("regenerate", last(narrow))
    _, too_long = narrow.press("same", value=choices(same)["same"])
    _, nothing = narrow.press("oldest", value=choices(too_long)["oldest"])
    assert nothing == ""
    narrow.wait()
    assert len(engine.requests) == 3


def test_a_shorter_reply_is_asked_for_when_the_person_says_so(
    narrow: Visitor, engine: ScriptedEngine
) -> None:
    _, question = narrow.ask("c " * 10)
    assert narrow.press("shorter", value=choices(question)["shorter"]) == SENT
    assert len(engine.requests[-1].prompt) == 3  # the context ends the reply


def test_a_new_chat_is_opened_when_the_person_says_so(narrow: Visitor) -> None:
    narrow.ask("c " * 10)
    assert narrow.press("new") == KEPT
    assert narrow.look().is_empty
    assert narrow.ask("c " * 10) == SENT


def test_an_edit_that_is_too_long_leaves_the_box_alone(narrow: Visitor, engine: ScriptedEngine) -> None:
    engine.words.context = 80
    _, question = narrow.press("edit", narrow.messages[0].id, "d " * 60)
    assert narrow.press("shorter", value=choices(question)["shorter"]) == KEPT
    assert engine.requests[-1].prompt[-1].content.startswith("d d")  # type: ignore[union-attr]


def test_a_choice_that_no_longer_helps_is_asked_again(narrow: Visitor, engine: ScriptedEngine) -> None:
    _, question = narrow.ask("c " * 10)
    engine.words.context = 12
    _, again = narrow.press("oldest", value=choices(question)["oldest"])
    assert "oldest" not in choices(again)


def test_regenerating_takes_seeds_that_no_version_has(person: Visitor, engine: ScriptedEngine) -> None:
    person.controls = to_values(SAMPLED)
    person.get("One")
    for _ in range(3):
        person.press("regenerate", person.messages[-1].id)
        person.wait()
    assert [request.options.sampling.seed for request in engine.requests] == [4, 5, 6, 7]
    assert len(person.messages[-1].versions) == 4


def test_regenerating_greedily_changes_no_seed(person: Visitor, engine: ScriptedEngine) -> None:
    person.get("One")
    person.regenerate(person.messages[-1].id)
    assert [request.options.sampling.seed for request in engine.requests] == [0, 0]


def test_a_reply_is_written_again_without_lookahead_and_compared(
    person: Visitor, engine: ScriptedEngine
) -> None:
    person.controls = to_values(SAMPLED)
    person.get("One")
    first = person.messages[-1]
    person.controls = to_values(Options(max_new_tokens=7))
    assert person.press("compare", first.id) == (SKIPPED, "")
    person.wait()
    asked, again = engine.requests
    decoding = replace(asked.options.decoding, decoder="plain")
    assert again == replace(asked, options=replace(asked.options, decoding=decoding), is_cold=True)
    second = person.messages[-1]
    assert second.versions == (first.id, second.id) and second.content.note.startswith("Same text: ")
    person.press("compare", second.id)
    person.wait()
    assert engine.requests[-1].options.decoding.decoder == "auto"
    assert len(person.messages[-1].versions) == 3


def test_a_comparison_with_another_model_is_refused(person: Visitor, engine: ScriptedEngine) -> None:
    person.get("One")
    engine.now = EngineStatus("ready", model=replace(DEMO, dtype="bfloat16"))
    assert person.press("compare", person.messages[-1].id) == KEPT
    assert person.heard == [
        "This reply was written by demo. Load it in the same revision and precision to compare."
    ]
    engine.now = EngineStatus("ready", model=DEMO)
    assert person.press("compare", person.messages[-1].id) == (SKIPPED, "")
    assert len(engine.requests) == 2


def test_another_version_is_shown(person: Visitor, engine: ScriptedEngine) -> None:
    person.get("One")
    first = person.messages[-1].id
    engine.text = "Something else."
    person.regenerate(first)
    assert person.texts == ["One", "Something else."]
    person.press("version", first)
    assert person.texts == ["One", "Hello there, friend."]
    assert person.ask("And on") == SENT, "the page stands where it was led"


def test_versions_are_shown_whatever_the_controls_hold(person: Visitor) -> None:
    person.get("One")
    first = person.messages[-1].id
    person.press("regenerate", first)
    person.wait()
    person.controls = person.controls._replace(rows=None)
    person.press("version", first)
    assert person.heard == []
    assert person.messages[-1].id == first
    person.press("regenerate", first)
    assert person.heard == []


def test_an_edited_question_is_sent_anew(person: Visitor) -> None:
    person.get("One")
    person.get("Two")
    assert person.press("edit", person.messages[0].id, "Uno") == KEPT
    person.wait()
    assert person.texts == ["Uno", "Hello there, friend."]


def test_a_stopped_reply_goes_on_where_it_was(person: Visitor, engine: ScriptedEngine) -> None:
    engine.step_limit = 1
    person.ask("One")
    until(lambda: person.look().live)
    person.actions.stop(person.state)
    person.wait()
    written = person.texts[-1]
    assert written and person.messages[-1].content.state == "stopped"
    engine.step_limit, engine.text = inf, "and the end."
    person.press("continue", person.messages[-1].id)
    person.wait()
    assert person.texts == ["One", f"{written}and the end."]


def test_stopping_reaches_the_reply_of_this_chat_alone(
    person: Visitor, other: Visitor, engine: ScriptedEngine
) -> None:
    engine.step_limit = 1
    person.ask("One")
    other.ask("Two")
    person.actions.stop(person.state)
    person.wait()
    assert other.look().is_busy
    person.services.conversations.stop_all()


def test_stopping_without_a_reply_does_nothing(person: Visitor) -> None:
    person.actions.stop(person.state)
    assert person.heard == []


def test_colours_are_drawn_once_they_are_asked_for(person: Visitor) -> None:
    person.get("One")
    assert 'class="coloured"' not in person.look().thread
    person.press("colours", person.messages[-1].id)
    assert 'class="coloured"' in person.look().thread


def test_what_is_gone_is_told(person: Visitor) -> None:
    person.get("One")
    assert person.press("regenerate", 99) == KEPT
    assert "no longer there" in person.heard[0]


def test_what_no_button_says_does_no_harm(person: Visitor) -> None:
    assert person.press("explode") == KEPT
    assert person.heard == []


def test_a_private_chat_is_begun_as_one(person: Visitor) -> None:
    person.actions.new_private_chat(person.state)
    assert person.look().is_private
    person.get("Secret")
    assert "Private" in person.look().sidebar
    assert person.services.conversations.stores.stored.summaries() == ()


def test_a_new_chat_leaves_the_reply_of_the_other_going(person: Visitor, engine: ScriptedEngine) -> None:
    engine.step_limit = 1
    person.ask("One")
    person.actions.new_chat(person.state)
    assert person.look().is_empty
    assert person.services.conversations.is_busy
    person.services.conversations.stop_all()
