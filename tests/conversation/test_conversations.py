"""The turns of chats over real stores, written by an engine that says what the test tells it to.

Replies that the disk did not take are told, kept while the app lives, and stored as soon as can be."""

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from app.chats.chats import Chats
from app.conversation import (
    ChatStores,
    ChatTooLong,
    Continuation,
    Conversations,
    NewChat,
    NewQuestion,
    Regeneration,
    ReplySettings,
    StillWriting,
    is_private,
)
from app.database.database import MEMORY, Database
from app.errors import StaleChat, StoreFull
from app.values.chat import ChatSettings, ChatVersion
from app.values.chat_format import Thinking
from app.values.messages import Failed, Finished, Message, ModelChoice, Options, Sampling, Statistics
from tests.conversation.people import ASKED, PatientEngine, Person
from tests.fakes import DEMO, FakeDocumentSearch, NarrowChats, chat_tools
from tests.support.waiting import until


@pytest.fixture
def chats(engine: PatientEngine, database: Database) -> Iterator[Conversations]:
    with closing(Database(MEMORY)) as memory:
        yield Conversations(
            engine, ChatStores(Chats(database), Chats(memory)), FakeDocumentSearch(), chat_tools()
        )


@pytest.fixture
def person(chats: Conversations, engine: PatientEngine) -> Person:
    return Person(chats, engine)


def test_a_question_is_stored_before_it_is_sent(person: Person, engine: PatientEngine) -> None:
    person.ask("Who?")
    assert engine.read() == [("user", "Who?")]
    assert [(message.role, message.content.state) for message in person.messages] == [
        ("user", "done"),
        ("assistant", "writing"),
    ]


def test_an_answer_is_stored_with_its_provenance_and_its_marks(person: Person) -> None:
    person.ask("Who?", "I.")
    written = person.messages[-1].content
    assert (written.text, written.state, len(written.marks)) == ("I.", "done", 1)
    assert written.provenance is not None
    assert written.provenance.model == DEMO


def test_the_model_reads_the_whole_chat_and_its_instructions(person: Person, engine: PatientEngine) -> None:
    person.ask("One?", "Two.")
    person.chats.stores.stored.change_settings(person.place.chat, lambda _: ChatSettings("Be short."))
    person.ask("Three?")
    assert engine.read() == [
        ("system", "Be short."),
        ("user", "One?"),
        ("assistant", "Two."),
        ("user", "Three?"),
    ]


def test_a_chat_takes_one_question_at_a_time_and_another_chat_takes_its_own(
    person: Person, engine: PatientEngine
) -> None:
    person.ask("One?")
    with pytest.raises(StillWriting):
        person.ask("Two?")
    other = Person(person.chats, engine)
    other.ask("Elsewhere?")
    assert person.chats.is_busy
    assert len(engine.requests) == 2


def test_a_page_that_fell_behind_changes_nothing(person: Person, engine: PatientEngine) -> None:
    person.ask("One?", "Two.")
    stale = Person(person.chats, engine)
    stale.place = person.place
    person.ask("Three?", "Four.")
    with pytest.raises(StaleChat):
        stale.ask("Overwrite?")
    assert person.texts == ["One?", "Two.", "Three?", "Four."]


def test_an_answer_written_anew_stands_beside_the_first(person: Person, engine: PatientEngine) -> None:
    person.ask("One?", "Two.")
    answer = person.messages[-1].id
    person.place = person.chats.start(Regeneration(person.place, ASKED, answer))
    assert engine.read() == [("user", "One?")]
    person.get("Three.")
    assert person.texts == ["One?", "Three."]
    assert len(person.messages[-1].versions) == 2


def test_an_edited_question_begins_a_branch_and_the_old_one_stays(
    person: Person, engine: PatientEngine
) -> None:
    person.ask("One?", "Two.")
    person.ask("Three?", "Four.")
    first = person.messages[0]
    person.place = person.chats.start(NewQuestion(person.place, ASKED, "Uno?", 0))
    assert engine.read() == [("user", "Uno?")]
    person.get("Dos.")
    assert person.texts == ["Uno?", "Dos."]
    person.place = person.chats.stores.stored.show(person.place, first.id)
    assert person.texts == ["One?", "Two.", "Three?", "Four."]


def test_a_stopped_answer_goes_on_where_it_was(person: Person, engine: PatientEngine) -> None:
    person.ask("One?")
    engine.say("Two, ")
    engine.replies[-1].append(Finished("stopped", Statistics(), DEMO, "auto"))
    person.wait()
    person.place = person.chats.start(Continuation(person.place, ASKED, person.messages[-1].id))
    assert engine.read()[-1] == ("assistant", "Two, ")
    person.get("three.")
    assert person.texts == ["One?", "Two, three."]
    assert len(person.messages) == 2


def test_an_answer_that_goes_on_thinks_as_it_began(person: Person, engine: PatientEngine) -> None:
    person.ask("One?")
    engine.say("Two, ")
    engine.replies[-1].append(Finished("stopped", Statistics(), DEMO, "auto"))
    person.wait()
    asked = replace(ASKED, options=replace(ASKED.options, thinking=Thinking("off", 9)))
    person.place = person.chats.start(Continuation(person.place, asked, person.messages[-1].id))
    assert engine.requests[-1].options.thinking == Thinking()
    person.get("three.")
    person.place = person.chats.start(NewQuestion(person.place, asked, "Four?"))
    assert engine.requests[-1].options.thinking == Thinking("off", 9)
    person.get("Five.")


def test_stopping_asks_the_reply_of_this_chat_to_end(person: Person, engine: PatientEngine) -> None:
    person.ask("One?")
    other = Person(person.chats, engine)
    other.ask("Two?")
    person.chats.stop(person.place.chat)
    assert [reply.is_stopping for reply in engine.replies] == [True, False]
    person.chats.stop_all()
    assert [reply.is_stopping for reply in engine.replies] == [True, True]


def test_a_failed_answer_keeps_what_was_written_and_the_reason(person: Person, engine: PatientEngine) -> None:
    person.ask("One?")
    engine.say("Tw")
    engine.replies[-1].append(Failed("Memory ran out."))
    person.wait()
    written = person.messages[-1].content
    assert (written.text, written.state, written.note) == ("Tw", "failed", "Memory ran out.")


def test_a_chat_that_is_too_long_sends_nothing_until_the_person_chooses(
    person: Person, engine: PatientEngine
) -> None:
    person.ask("a " * 30, "b " * 30)
    with pytest.raises(ChatTooLong) as caught:
        person.ask("c " * 30)
    assert caught.value.fit.left_out == 2
    assert len(engine.requests) == 1
    assert len(person.messages) == 2

    person.place = person.chats.start(NewQuestion(person.place, replace(ASKED, overflow="oldest"), "c " * 30))
    assert [role for role, _ in engine.read()] == ["user"]
    newest = person.chats.newest_reply(person.place.chat)
    assert newest is not None
    assert newest.first_read == person.messages[2].id


def test_turns_that_do_not_count_are_not_taken_for_the_oldest(person: Person, engine: PatientEngine) -> None:
    person.ask("Zero?")
    engine.replies[-1].append(Failed("Memory ran out."))
    person.wait()
    person.ask("a " * 30, "b " * 30)
    person.place = person.chats.start(NewQuestion(person.place, replace(ASKED, overflow="oldest"), "c " * 30))
    newest = person.chats.newest_reply(person.place.chat)
    assert newest is not None
    assert newest.first_read == person.messages[4].id
    assert person.messages[4].text.startswith("c")


def test_a_shorter_reply_is_sent_whole_and_ends_where_the_context_ends(
    person: Person, engine: PatientEngine
) -> None:
    person.place = person.chats.start(NewChat(ChatVersion(), replace(ASKED, overflow="shorter"), "a " * 80))
    assert engine.requests[-1].prompt == (Message("user", "a " * 80),)
    assert engine.requests[-1].options == ASKED.options


def test_nothing_is_made_of_a_first_question_that_is_too_long(person: Person) -> None:
    with pytest.raises(ChatTooLong):
        person.ask("a " * 200)
    assert person.chats.stores.summaries() == ()


def test_a_private_chat_never_reaches_the_disk(person: Person, database: Database) -> None:
    person.place = person.chats.start(NewChat(ChatVersion(), ASKED, "Secret?", ChatSettings(), True))
    assert is_private(person.place.chat)
    person.get("Sesame")
    assert person.texts == ["Secret?", "Sesame"]
    assert Chats(database).summaries() == ()
    database.close()
    assert all(b"Sesame" not in file.read_bytes() for file in database.path.parent.iterdir())


def test_the_reply_under_way_is_known_and_the_stores_count_changes(
    person: Person, engine: PatientEngine
) -> None:
    before = person.chats.stores.changes
    person.ask("One?")
    newest = person.chats.newest_reply(person.place.chat)
    assert newest is not None
    assert newest.message == person.messages[-1].id
    assert newest.reply is engine.replies[-1]
    assert person.chats.stores.changes != before


def test_closing_waits_until_replies_are_stored(person: Person, engine: PatientEngine) -> None:
    person.ask("One?")
    engine.say("Two.")
    engine.replies[-1].append(Failed("Foresight is closing."))
    person.chats.close()
    assert person.messages[-1].content.state == "failed"


def test_the_options_of_a_reply_are_stored_as_they_were(person: Person) -> None:
    warm = Options(Sampling(temperature=0.7, seed=3), max_new_tokens=20)
    person.place = person.chats.start(
        NewChat(ChatVersion(), ReplySettings(ModelChoice("demo"), warm), "One?")
    )
    person.get("Two.")
    provenance = person.messages[-1].content.provenance
    assert provenance is not None
    assert provenance.options == warm


def test_two_pages_that_ask_at_once_get_one_reply(person: Person, engine: PatientEngine) -> None:
    person.ask("One?", "Two.")
    together, refused = threading.Barrier(8), list[Exception]()

    def ask() -> None:
        together.wait()
        try:
            person.chats.start(NewQuestion(person.place, ASKED, "Again?"))
        except (StillWriting, StaleChat) as error:
            refused.append(error)

    pages = [threading.Thread(target=ask) for _ in range(8)]
    for page in pages:
        page.start()
    for page in pages:
        page.join()
    assert len(refused) == 7
    assert len(engine.requests) == 2
    assert person.texts == ["One?", "Two.", "Again?", ""]


def test_a_failed_turn_without_text_is_not_sent_again(person: Person, engine: PatientEngine) -> None:
    person.ask("One?")
    engine.replies[-1].append(Failed("Memory ran out."))
    person.wait()
    person.ask("Two?")
    assert engine.read() == [("user", "Two?")]
    assert person.texts == ["One?", "", "Two?", ""]


def test_options_of_versions_are_known_from_the_store(person: Person) -> None:
    person.ask("One?", "Two.")
    answer = person.messages[-1].id
    warm = replace(ASKED, options=Options(Sampling(temperature=0.7), max_new_tokens=20))
    person.place = person.chats.start(Regeneration(person.place, warm, answer))
    person.get("Three.")
    assert person.chats.options_used(person.place.chat, answer) == (ASKED.options, warm.options)


@pytest.fixture
def narrow(database: Database) -> NarrowChats:
    return NarrowChats(database)


@pytest.fixture
def squeezed(engine: PatientEngine, narrow: NarrowChats) -> Iterator[Person]:
    """A person whose answers do not get onto the disk."""
    with closing(Database(MEMORY)) as memory:
        yield Person(
            Conversations(engine, ChatStores(narrow, Chats(memory)), FakeDocumentSearch(), chat_tools()),
            engine,
        )


def test_a_reply_that_could_not_be_stored_is_told_and_stored_before_the_chat_goes_on(
    squeezed: Person, narrow: NarrowChats, engine: PatientEngine
) -> None:
    squeezed.ask("One?", "Two.")
    assert squeezed.chats.problem(squeezed.place.chat) == "The disk is full: free some space."
    assert squeezed.texts == ["One?", ""]
    with pytest.raises(StoreFull):
        squeezed.ask("Three?")
    assert len(engine.requests) == 1, "nothing was sent"
    narrow.is_full = False
    squeezed.ask("Three?", "Four.")
    assert engine.read() == [("user", "One?"), ("assistant", "Two."), ("user", "Three?")]
    assert squeezed.texts == ["One?", "Two.", "Three?", "Four."]
    assert squeezed.chats.problem(squeezed.place.chat) == ""


def test_closing_tries_once_more_to_store_a_reply(squeezed: Person, narrow: NarrowChats) -> None:
    squeezed.ask("One?", "Two.")
    squeezed.chats.close()
    assert squeezed.texts == ["One?", ""], "the disk is still full, and that ends nothing"
    narrow.is_full = False
    squeezed.chats.close()
    assert squeezed.texts == ["One?", "Two."]


def test_closing_waits_but_a_moment_for_an_engine_that_hangs_and_what_it_wrote_is_stored(
    squeezed: Person, narrow: NarrowChats, engine: PatientEngine
) -> None:
    narrow.is_full = False
    person = squeezed
    person.ask("One?")
    engine.say("As far as")
    until(lambda: person.texts == ["One?", "As far as"])
    person.chats.close()
    engine.end()
    person.wait()
