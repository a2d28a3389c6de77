"""Pages see the chats from wherever they stand; looking costs nothing, and looking away stops nothing."""

import re
import threading
from dataclasses import replace
from math import inf

import pytest

from app.errors import BadOption
from app.ui.chat.render import ChatRenderer
from app.values.chat import ChatSettings
from app.values.chat_format import DEFAULT_THINKING, Thinking
from app.values.messages import EngineStatus, Message, ModelChoice, Options
from tests.fake_documents import ScriptedDocuments
from tests.fakes import DEMO, ScriptedEngine, WordReader
from tests.support.waiting import until
from tests.ui.chat.people import SECONDS, Screen, Visitor

LONG = "word after word " * 100


class RefusingReader(WordReader):
    """A tokenizer whose template takes no chat."""

    def count(  # type: ignore[override]
        self, prompt: tuple[Message, ...], _thinking: Thinking = DEFAULT_THINKING, _tools: str = ""
    ) -> int:
        raise BadOption(f"The template refuses these {len(prompt)} messages.")


def hold(engine: ScriptedEngine, text: str = LONG) -> None:
    engine.text, engine.step_limit = text, 8


def stop(person: Visitor) -> None:
    person.actions.stop(person.state)
    person.wait()


def test_nothing_new_is_the_very_same_screen(person: Visitor) -> None:
    assert person.look() is person.look()
    person.get("Hi")
    assert person.look() is person.look()


def test_a_reply_under_way_is_live_and_at_its_end_in_the_thread(
    person: Visitor, engine: ScriptedEngine
) -> None:
    hold(engine, "several words " * 500)
    person.ask("Hi")
    *under_way, last = person.follow(engine)
    assert len({screen.live for screen in under_way}) > 3
    lengths = [len("".join(screen.live)) for screen in under_way]
    assert lengths == sorted(lengths)
    assert all("several" not in screen.thread for screen in under_way) and "Writing…" in under_way[-1].note
    assert (last.live, last.note) == ((), "")
    assert engine.text in last.thread


def test_a_page_opened_in_mid_reply_sees_all_of_it(
    person: Visitor, other: Visitor, engine: ScriptedEngine
) -> None:
    hold(engine)
    person.ask("Hi")
    until(lambda: len("".join(person.look().live)) > 40)
    other.state.open_chat(person.state.version)
    assert "".join(other.look().live).startswith('<p dir="auto">word after word')
    other.actions.stop(other.state)
    other.wait()
    person.wait()
    assert person.look().thread == other.look().thread


def test_a_page_on_another_chat_sees_nothing_of_a_reply_but_the_dot(
    person: Visitor, other: Visitor, engine: ScriptedEngine
) -> None:
    other.get("Elsewhere")
    hold(engine)
    person.ask("Hi")
    until(lambda: person.look().live)
    screen = other.look()
    assert (screen.live, screen.is_busy) == ((), False)
    assert "Hi</p>" not in screen.thread
    assert screen.sidebar.count('class="writing"') == 1
    assert other.look() is screen, "the reply grows, but not here"
    stop(person)
    assert 'class="writing"' not in other.look().sidebar


def test_what_one_page_writes_the_other_shows(person: Visitor, other: Visitor) -> None:
    person.get("One")
    other.state.open_chat(person.state.version)
    other.look()
    person.get("Two")
    assert other.look().thread == person.look().thread
    assert other.state.version == person.state.version, "so it may go on from there"


def test_looking_away_stops_nothing(person: Visitor, engine: ScriptedEngine) -> None:
    engine.text, engine.step_limit = "to the very end", 1
    person.ask("Hi")
    person.look()
    engine.step_limit = inf
    until(lambda: not person.services.conversations.is_busy)
    assert person.texts == ["Hi", "to the very end"]


def test_a_continued_reply_keeps_its_words_on_the_page_while_it_waits(
    person: Visitor, engine: ScriptedEngine
) -> None:
    hold(engine)
    person.ask("Hi")
    until(lambda: "word after" in "".join(person.look().live))
    stop(person)
    engine.step_limit = 0
    person.press("continue", person.messages[-1].id)
    assert "word after" in "".join(person.look().live)
    stop(person)


def test_a_stop_is_told_until_the_engine_notices_it(
    person: Visitor, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed = threading.Event()
    monkeypatch.setattr(engine, "_is_stopped_before", lambda *_: noticed.wait(SECONDS))
    engine.step_limit = 0
    person.ask("Hi")
    assert "Stopping" not in person.look().note
    person.actions.stop(person.state)
    assert "Stopping…" in person.look().note
    noticed.set()
    person.wait()


def test_a_chat_that_another_page_deletes_leaves_an_empty_page(person: Visitor, other: Visitor) -> None:
    person.get("One")
    other.state.open_chat(person.state.version)
    before = other.look()
    person.services.conversations.stores.of(person.state.version.chat).delete(person.state.version.chat)
    after = other.look()
    assert after.is_empty and not before.is_empty
    assert (after.thread, after.system_prompt != before.system_prompt) == ("", True)
    assert (other.state.version.chat, person.services.chat) == (0, 0)
    other.get("A new one")
    assert other.texts[0] == "A new one"


def test_a_chat_that_is_deleted_while_it_is_written_leaves_an_empty_page(
    person: Visitor, other: Visitor, engine: ScriptedEngine
) -> None:
    hold(engine)
    person.ask("One")
    other.state.open_chat(person.state.version)
    until(lambda: other.look().live)
    person.services.conversations.stop_all()
    person.services.conversations.stores.stored.delete_all()
    assert other.look().is_empty
    until(lambda: not person.services.conversations.is_busy)


def test_what_the_engine_does_is_seen_at_once(person: Visitor, engine: ScriptedEngine) -> None:
    person.look()
    person.services.choose_model(ModelChoice("org/model"))
    assert "Loading org/model" in person.look().status
    engine.now = EngineStatus("failed", "No such model.")
    assert "No such model." in person.look().status


def test_the_newest_fifty_messages_are_shown_at_first(person: Visitor) -> None:
    for number in range(30):
        person.get(f"Question {number}.")
    assert "Show 10 earlier messages" in person.look().thread
    assert "Question 4." not in person.look().thread
    person.press("earlier")
    assert "Question 4." in person.look().thread


def test_the_meter_counts_the_chat_and_the_draft(person: Visitor) -> None:
    person.get("one two three")  # 5 tokens, and 5 of "Hello there, friend."
    assert "10 of 1,024 tokens" in person.look().meter
    person.actions.type(person.state, "four five")
    assert "14 of 1,024 tokens" in person.look().meter
    person.actions.type(person.state, " ")
    assert "10 of 1,024 tokens" in person.look().meter


def test_the_cut_line_stands_before_what_would_be_sent(
    person: Visitor, other: Visitor, engine: ScriptedEngine
) -> None:
    """Three turns of 3 + 5 tokens in a context of 24, of which 6 are kept for a reply: two of them fit."""
    for _ in range(3):
        person.get("Question")
    assert "cut-line" not in person.look().thread
    engine.words.context, engine.now = 24, EngineStatus("ready", model=replace(DEMO, context=24))
    thread = person.look().thread
    assert "You are asked before" in thread
    first_read = person.messages[2].id
    assert thread.index("cut-line") < thread.index(f'data-message="{first_read}"')
    assert thread.index("cut-line") > thread.index(f'data-message="{person.messages[1].id}"')
    other.get("Elsewhere")
    assert person.look().thread == thread, "the log of the last reply is gone by now"


def test_the_cut_line_moves_with_what_is_typed(person: Visitor, engine: ScriptedEngine) -> None:
    for _ in range(3):
        person.get("Question")
    engine.words.context, engine.now = 24, EngineStatus("ready", model=replace(DEMO, context=24))
    before = person.look().thread
    person.actions.type(person.state, "word " * 6)
    after = person.look().thread
    assert before.index("cut-line") < after.index("cut-line")
    assert after.index("cut-line") > after.index(f'data-message="{person.messages[3].id}"')


def test_instructions_count_before_a_chat_is_begun(person: Visitor) -> None:
    person.actions.type(person.state, "one")
    assert "3 of 1,024" in person.look().meter
    person.state.settings = ChatSettings("Be brief.")
    assert "7 of 1,024" in person.look().meter


def test_a_template_that_refuses_the_chat_leaves_no_meter(person: Visitor, engine: ScriptedEngine) -> None:
    person.get("one two three")
    engine.words = RefusingReader()
    person.actions.type(person.state, "four")
    assert person.look().meter == ""


def test_other_lengths_of_replies_are_counted_with(person: Visitor, engine: ScriptedEngine) -> None:
    engine.words.context = 40
    person.actions.type(person.state, "word " * 25)
    assert "full" not in person.look().meter.split(">")[0]
    person.services.change_options(lambda _: Options(max_new_tokens=4))
    assert "27 of 40 tokens<" in person.look().meter


def used(person: Visitor) -> int:
    """The tokens that the meter says."""
    found = re.search(r"length: (\d+) of", person.look().meter)
    return int(found[1]) if found else 0


def test_the_meter_moves_with_a_reply_and_counts_the_chat_at_its_end(
    person: Visitor, other: Visitor, engine: ScriptedEngine
) -> None:
    other.get("one two three")
    assert "10 of" in other.look().meter
    hold(engine)
    person.ask("Hi")
    other.state.open_chat(person.state.version)
    for each in (person, other):
        until(lambda each=each: used(each) > 9)  # the engine's prompt, and something of the reply
        before, engine.step_limit = used(each), engine.step_limit + 8
        until(lambda each=each, before=before: used(each) > before)
    stop(person)
    said = person.messages[-1].text
    assert used(person) == used(other) == 5 + len(said.split())


def test_the_meter_counts_the_passages_of_a_reply(
    person: Visitor, engine: ScriptedEngine, documents: ScriptedDocuments
) -> None:
    documents.paste(documents.create("Notes"), "The ferry leaves at nine.")
    person.state.settings = ChatSettings(collections=(1,))
    person.actions.type(person.state, "When?")
    assert "of 1,024 tokens, plus documents" in person.look().meter
    hold(engine)
    person.ask("Ferry leaves when?")
    until(lambda: "documents included" in person.look().meter)
    stop(person)
    assert "of 1,024 tokens, plus documents" in person.look().meter


def test_the_context_is_not_counted_at_every_key(person: Visitor) -> None:
    soon, late = (ChatRenderer(person.services, person.state, count_seconds=each) for each in (0.05, 3600))
    person.actions.type(person.state, "one")
    assert all("3 of" in Screen(each.render()).meter for each in (soon, late))
    person.actions.type(person.state, "one two")
    until(lambda: "4 of" in Screen(soon.render()).meter)
    assert "3 of" in Screen(late.render()).meter


def test_a_very_long_chat_is_drawn_before_it_is_counted(person: Visitor) -> None:
    chats = person.services.conversations.stores.stored
    place, _ = chats.add(chats.create(title="Long"), "user", "word " * 30_000)
    person.state.open_chat(place)
    first, second = person.look(), person.look()
    assert "word word" in first.thread and first.meter == ""
    assert second.meter != ""
