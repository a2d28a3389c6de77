"""A chat that is too long goes on with a summary that the model wrote of its oldest messages."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from app.chats.chats import Chats
from app.conversation import ChatStores, ChatTooLong, Continuation, Conversations, NewQuestion, Regeneration
from app.conversation.summaries import REQUEST, SUMMARISING
from app.database.database import MEMORY, Database
from app.values.chat import SUMMARY_REQUEST
from app.values.messages import Failed, Finished, Loading, Statistics
from tests.conversation.people import ASKED, PatientEngine, Person
from tests.fakes import DEMO, FakeDocumentSearch, chat_tools
from tests.support.waiting import until

SUMMARISED = replace(ASKED, overflow="summarise")
QUESTION = "c " * 90


@pytest.fixture
def chats(engine: PatientEngine, database: Database) -> Iterator[Conversations]:
    engine.words.context = 200
    with closing(Database(MEMORY)) as memory:
        yield Conversations(
            engine, ChatStores(Chats(database), Chats(memory)), FakeDocumentSearch(), chat_tools()
        )


@pytest.fixture
def person(chats: Conversations, engine: PatientEngine) -> Person:
    """Somebody whose chat has two turns and no room for a third."""
    person = Person(chats, engine)
    person.ask("a " * 40, "b " * 40)
    person.ask("Short?", "Yes.")
    return person


def ask(person: Person, question: str = QUESTION) -> None:
    """Ask, and have the oldest messages summarised first."""
    asked = len(person.engine.requests)
    person.place = person.chats.start(NewQuestion(person.place, SUMMARISED, question))
    until(lambda: len(person.engine.requests) > asked)


def summarise(person: Person, summary: str) -> None:
    """Have the engine write the summary, and wait for the request that follows it."""
    asked = len(person.engine.requests)
    person.engine.say(summary)
    person.engine.end()
    until(lambda: len(person.engine.requests) > asked)


def test_the_model_writes_a_summary_which_it_then_reads_in_place_of_the_messages(person: Person) -> None:
    with pytest.raises(ChatTooLong) as caught:
        person.ask(QUESTION)
    assert caught.value.fit.summarised == 2
    ask(person)
    assert person.engine.read() == [("user", "a " * 40), ("assistant", "b " * 40), ("user", SUMMARY_REQUEST)]
    assert person.engine.requests[-1].options.max_new_tokens == 25
    summarise(person, "<think>Hm.</think>Letters.")
    assert person.engine.read() == [
        ("user", SUMMARY_REQUEST),
        ("assistant", "Letters."),
        ("user", "Short?"),
        ("assistant", "Yes."),
        ("user", QUESTION),
    ]
    assert person.engine.requests[-1].options == ASKED.options
    person.get("Done.")
    assert len(person.messages) == 6 and person.messages[1].content.summary == "Letters."
    assert person.messages[0].text == "a " * 40, "the messages stay"


def test_a_summary_holds_for_later_questions_a_restart_and_the_export(
    person: Person, database: Database
) -> None:
    ask(person)
    summarise(person, "Letters.")
    person.get("Done.")
    expected = [REQUEST.content, "Letters.", "Short?", "Yes.", QUESTION, "Done."]
    again = Chats(database)
    assert [one.content for one in again.path_texts(person.place.chat)] == expected
    exported = again.export_json((person.place.chat,))
    again.delete(person.place.chat)
    again.import_json(exported)
    [chat] = again.summaries()
    assert [one.content for one in again.path_texts(chat.id)] == expected
    assert "*Summary of the messages above:* Letters." in again.export_markdown(chat.id)
    person.place = again.thread(chat.id).version
    person.ask("And?")
    assert [text for _, text in person.engine.read()] == [*expected, "And?"]


def test_a_summary_holds_only_below_its_messages_until_one_of_them_changes(person: Person) -> None:
    ask(person)
    summarise(person, "Letters.")
    person.get("Done.")
    first = person.messages[1].id
    person.place = person.chats.start(Regeneration(person.place, ASKED, first))
    assert person.engine.read() == [("user", "a " * 40)]
    person.get("Other.")
    person.place = person.chats.stores.stored.show(person.place, first)
    person.place = person.chats.start(Continuation(person.place, ASKED, first))
    person.get("More.")
    assert person.messages[1].content.summary == ""


def test_a_second_summary_is_made_of_the_first(person: Person) -> None:
    ask(person)
    summarise(person, "Letters.")
    person.get("d " * 30)
    ask(person)
    assert [text for _, text in person.engine.read()] == [
        SUMMARY_REQUEST, "Letters.", "Short?", "Yes.", QUESTION, "d " * 30, SUMMARY_REQUEST,
    ]  # fmt: skip
    summarise(person, "More letters.")
    assert [text for _, text in person.engine.read()] == [SUMMARY_REQUEST, "More letters.", QUESTION]
    person.get("Done.")


def test_messages_that_do_not_fit_at_once_are_summarised_one_part_after_the_other(person: Person) -> None:
    person.engine.words.context = 130
    person.place = person.chats.stores.stored.add(person.place, "user", "e " * 40)[0]
    person.place = person.chats.stores.stored.add(person.place, "assistant", "f " * 20)[0]
    ask(person, "c " * 40)
    texts = ["a " * 40, "b " * 40, "Short?", "Yes."]
    assert [text for _, text in person.engine.read()] == [*texts, SUMMARY_REQUEST]
    summarise(person, "First.")
    assert [text for _, text in person.engine.read()] == [
        SUMMARY_REQUEST, "First.", "e " * 40, "f " * 20, SUMMARY_REQUEST,
    ]  # fmt: skip
    summarise(person, "Both.")
    assert [text for _, text in person.engine.read()] == [SUMMARY_REQUEST, "Both.", "c " * 40]
    person.get("Done.")


def test_a_message_that_is_longer_than_the_context_is_read_in_parts(person: Person) -> None:
    person.place = person.chats.stores.stored.add(person.place, "user", "Much?")[0]
    person.place = person.chats.stores.stored.add(person.place, "assistant", "word " * 300)[0]
    ask(person)
    read = ""
    while person.engine.read()[-1] == ("user", SUMMARY_REQUEST):
        texts = [text for _, text in person.engine.read()]
        assert sum(2 + len(text.split()) for text in texts) + 25 <= 200
        read += "".join(text for text in texts if text.startswith("word"))
        summarise(person, f"{len(read)} characters.")
    assert read == "word " * 300
    assert person.engine.read() == [
        ("user", SUMMARY_REQUEST),
        ("assistant", "1500 characters."),
        ("user", QUESTION),
    ]
    person.get("Done.")


def test_its_progress_is_told_and_it_can_be_stopped(person: Person) -> None:
    ask(person)
    started = person.chats.newest_reply(person.place.chat)
    assert started is not None
    person.engine.say("Half")
    assert started.reply.wait(0, 10) == [Loading(SUMMARISING, 1, 25)]
    person.chats.stop(person.place.chat)
    until(lambda: person.engine.replies[-1].is_stopping)
    person.engine.replies[-1].append(Finished("stopped", Statistics(), DEMO, "auto"))
    person.wait()
    written = person.messages[-1].content
    assert written.state == "failed" and written.note.startswith("Stopped before the old messages")
    assert all(not message.content.summary for message in person.messages)


@pytest.mark.parametrize(
    ("fail", "note"),
    [
        (lambda engine: engine.replies[-1].append(Failed("Memory ran out.")), "Memory ran out."),
        (lambda engine: engine.end(), "The model wrote no summary."),
    ],
    ids=["failed", "empty"],
)
def test_why_there_is_no_summary_is_told(
    person: Person, fail: Callable[[PatientEngine], None], note: str
) -> None:
    ask(person)
    fail(person.engine)
    person.wait()
    assert person.messages[-1].content.note.startswith(note)


def test_a_chat_that_fits_is_not_summarised(person: Person) -> None:
    ask(person, "Fits?")
    assert person.engine.read()[-1] == ("user", "Fits?")
