"""Chats go on, branch, and refuse whoever fell behind."""

import json
import sqlite3
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chats.chats import Chats
from app.chats.message_table import value_from_json
from app.database.database import Database
from app.errors import ChatNotFound, StaleChat
from app.values.chat import ChatSettings, ChatVersion, MessageContent, Provenance
from app.values.chat_format import ChatFormat, ReplyFormat
from app.values.dataclass_json import to_dict
from app.values.document import Citation, Sources
from app.values.messages import Message, Sampling
from tests.chats.samples import FINISHED, answer, texts
from tests.tiers import examples


def test_a_question_and_its_empty_reply_are_there_before_a_word_is_decoded(chats: Chats) -> None:
    place, reply = chats.ask(chats.create(), "Why?")
    thread = chats.thread(place.chat)
    assert [(m.role, m.text, m.content.state) for m in thread.messages] == [
        ("user", "Why?", "done"),
        ("assistant", "", "writing"),
    ]
    assert (thread.version, thread.messages[-1].id) == (place, reply)


def test_a_waiting_message_is_either_in_the_queue_or_in_the_chat(chats: Chats) -> None:
    outdated, _ = chats.ask(chats.create(), "Why?")
    chats.rename(outdated.chat, "Asked")
    place, _ = chats.ask(chats.thread(outdated.chat).version, "And then?")
    chats.add_queued(place.chat, "So?")
    (waiting,) = chats.queued(place.chat)
    with pytest.raises(StaleChat):
        chats.ask(outdated, waiting.text, queued=waiting.id)
    assert chats.queued(place.chat) == (waiting,)
    chats.ask(place, waiting.text, queued=waiting.id)
    assert chats.queued(place.chat) == () and "So?" in texts(chats, place.chat)


def test_a_reply_is_kept_with_its_marks_and_provenance(chats: Chats) -> None:
    _, reply = chats.ask(chats.create(), "Why?")
    chats.write(reply, FINISHED)
    assert chats.message(reply).content == FINISHED


def test_the_models_template_is_not_stored_with_each_reply(chats: Chats, database: Database) -> None:
    thinks = ChatFormat(ReplyFormat("<think>", "</think>"))
    assert FINISHED.provenance is not None
    provenance = replace(FINISHED.provenance, model=replace(FINISHED.provenance.model, chat_format=thinks))
    _, reply = chats.ask(chats.create(), "Why?")
    chats.write(reply, replace(FINISHED, provenance=provenance))
    with database.reading() as rows:
        ((stored,),) = rows.execute("SELECT provenance FROM message WHERE id = ?", (reply,)).fetchall()
    assert "chat_format" not in stored and "<think>" not in chats.export_json()
    assert chats.message(reply).content == FINISHED, "it is the same model"
    old = json.dumps(to_dict(provenance))
    assert value_from_json(Provenance, old) == FINISHED.provenance, "older versions stored it"


def test_a_partial_reply_leaves_the_page_its_place(chats: Chats) -> None:
    place, reply = chats.ask(chats.create(), "Why?")
    chats.write(reply, MessageContent("Be"))
    chats.write(reply, MessageContent("Because", "done"))
    assert chats.thread(place.chat).version == place
    answer(chats, place, "And?", "So.")


def test_a_late_partial_reply_does_not_replace_the_final_one(chats: Chats) -> None:
    _, reply = chats.ask(chats.create(), "Why?")
    chats.write(reply, MessageContent("Because", "stopped"))
    chats.write(reply, MessageContent("Be"))
    assert (chats.message(reply).text, chats.message(reply).content.state) == ("Because", "stopped")


def test_a_reply_to_a_chat_that_is_gone_goes_nowhere(chats: Chats) -> None:
    _, reply = chats.ask(chats.create(), "Why?")
    chats.delete_all()
    chats.write(reply, FINISHED)
    with pytest.raises(ChatNotFound):
        chats.message(reply)


@pytest.mark.parametrize(
    "action",
    [
        lambda chats, place, _: chats.ask(place, "Again?"),
        lambda chats, place, _: chats.add(place, "user", "Again?"),
        lambda chats, place, reply: chats.regenerate(place, reply),
        lambda chats, place, reply: chats.continue_reply(place, reply),
        lambda chats, place, reply: chats.show(place, reply),
    ],
)
def test_a_page_that_fell_behind_changes_nothing(chats: Chats, action: object) -> None:
    stale, reply = answer(chats, chats.create(), "Why?", "So.")
    answer(chats, stale, "And?", "That.")
    before = chats.thread(stale.chat)
    with pytest.raises(StaleChat, match="another window"):
        action(chats, stale, reply)  # type: ignore[operator]
    assert chats.thread(stale.chat) == before


def test_a_reply_goes_on_where_it_stopped(chats: Chats) -> None:
    place, reply = chats.ask(chats.create(), "Why?")
    chats.write(reply, MessageContent("Because of", "stopped", "Stopped."))
    place = chats.continue_reply(place, reply)
    assert (chats.message(reply).text, chats.message(reply).content.state) == ("Because of", "writing")
    chats.write(reply, MessageContent("Because of that.", "done"))
    assert texts(chats, place.chat) == ["Why?", "Because of that."]
    assert len(chats.search("that")) == 1


@pytest.mark.parametrize("parent", [999, None])
def test_a_message_of_another_chat_is_no_parent_and_no_reply(chats: Chats, parent: int | None) -> None:
    _, foreign = answer(chats, chats.create(), "Else?", "No.")
    place, _ = answer(chats, chats.create(), "Why?", "So.")
    before = chats.thread(place.chat)
    for action in (
        lambda: chats.add(place, "user", "x", parent=parent or foreign),
        lambda: chats.regenerate(place, parent or foreign),
        lambda: chats.continue_reply(place, parent or foreign),
        lambda: chats.show(place, parent or foreign),
        lambda: chats.path_texts(place.chat, parent or foreign),
    ):
        with pytest.raises(ChatNotFound):
            action()
    assert chats.thread(place.chat) == before


def test_a_question_is_no_reply_to_write_anew(chats: Chats) -> None:
    place, _ = answer(chats, chats.create(), "Why?", "So.")
    question = chats.thread(place.chat).messages[0].id
    with pytest.raises(ChatNotFound):
        chats.regenerate(place, question)
    with pytest.raises(ChatNotFound):
        chats.ask(ChatVersion(), "Before there is a chat?")


def test_replies_that_nobody_finished_are_interrupted_at_start(chats: Chats) -> None:
    place, done = answer(chats, chats.create(), "Why?", "So.")
    place, cut = chats.ask(place, "And?")
    chats.write(cut, MessageContent("That is partl"))
    chats.mark_interrupted()
    written = chats.message(cut).content
    assert (written.text, written.state) == ("That is partl", "interrupted")
    assert written.note == "Foresight ended before this reply was complete."
    assert chats.message(done).content.state == "done"
    assert [found.summary.id for found in chats.search("partl")] == [place.chat]


def test_the_newest_messages_come_first_and_the_others_are_counted(chats: Chats) -> None:
    place = chats.create(ChatSettings("Be brief.", Sampling(0.5)))
    for number in range(5):
        place, _ = answer(chats, place, f"q{number}", f"a{number}")
    thread = chats.thread(place.chat, newest=3)
    assert ([message.text for message in thread.messages], thread.earlier) == (["a3", "q4", "a4"], 7)
    assert thread.settings == ChatSettings("Be brief.", Sampling(0.5))
    assert chats.thread(place.chat, newest=0).earlier == 10


def test_the_model_reads_the_path_up_to_the_reply_that_it_is_to_write(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(), "Why?", "So.")
    place, writing = chats.ask(place, "And?")
    asked = (Message("user", "Why?"), Message("assistant", "So."), Message("user", "And?"))
    assert chats.path_texts(place.chat) == asked
    assert chats.path_texts(place.chat, writing) == asked
    assert chats.path_texts(place.chat, reply) == asked[:2]
    assert chats.path_texts(place.chat, 0) == ()


def test_the_model_reads_what_there_is_of_a_reply_that_goes_on(chats: Chats) -> None:
    place, reply = chats.ask(chats.create(), "Why?")
    chats.write(reply, MessageContent("Because", "stopped"))
    place = chats.continue_reply(place, reply)
    assert chats.path_texts(place.chat, reply)[-1] == Message("assistant", "Because")


@pytest.mark.parametrize(
    "failure",
    [MessageContent("", "failed"), MessageContent("half", "failed"), MessageContent(" \n", "stopped")],
)
def test_the_model_reads_no_reply_that_failed_nor_its_question(chats: Chats, failure: MessageContent) -> None:
    place, _ = answer(chats, chats.create(), "Why?", "So.")
    place, failed = chats.ask(place, "Too much?")
    chats.write(failed, failure)
    place, _ = chats.ask(place, "And?")
    assert [message.content for message in chats.path_texts(place.chat)] == ["Why?", "So.", "And?"]


def test_a_chat_whose_shown_leaf_is_not_there_can_be_opened(chats: Chats, database: Database) -> None:
    place, _ = answer(chats, chats.create(), "Why?", "So.")
    with database.writing() as connection:
        connection.execute("UPDATE chat SET shown = 999")
    assert texts(chats, place.chat) == ["Why?", "So."]
    assert len(chats.path_texts(place.chat)) == 2


def test_half_a_character_is_kept_as_a_mark(chats: Chats) -> None:
    place, _ = answer(chats, chats.create(title="t \ud83d"), "x \ud83d", "y\0 \udc00")
    assert texts(chats, place.chat) == ["x ?", "y\0 ?"]


def test_a_question_behind_a_failed_reply_is_read_without_that_turn(chats: Chats) -> None:
    place, failed = chats.ask(chats.create(), "Why?")
    chats.write(failed, MessageContent("", "failed", "Memory ran out."))
    assert chats.texts_before(place.chat) == ()
    assert [message.content for message in chats.path_texts(place.chat)] == ["Why?"], "which is asked anew"
    place, reply = chats.ask(place, "And?")
    assert [message.content for message in chats.path_texts(place.chat)] == ["And?"]
    assert len(chats.path_ids(place.chat, reply)) == 1


def test_a_long_thread_is_read_however_few_parameters_a_statement_may_have(
    chats: Chats, database: Database
) -> None:
    version = chats.create()
    for number in range(10):
        version, _ = chats.add(version, "user", str(number))
    with database.reading() as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 5)
    assert texts(chats, version.chat) == [str(number) for number in range(10)]


def test_an_edited_reply_is_a_version_beside_the_model_s_own(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(), "Why?", "So.")
    edited = chats.edit_reply(place, reply, "Because.")
    assert texts(chats, place.chat) == ["Why?", "Because."]
    last = chats.thread(place.chat).messages[-1]
    assert last.versions == (reply, last.id) and last.content.note == "Edited by you."
    chats.show(edited, reply)
    assert texts(chats, place.chat) == ["Why?", "So."]


def test_an_edited_reply_has_its_sources_and_no_marks_for_a_text_that_is_gone(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(), "Why?", "So [1].")
    sources = Sources("why", (Citation(1, 5, "Lease", 0, 9),), unsupported=(0,))
    chats.write(reply, MessageContent("So [1].", "done", sources=sources))
    chats.edit_reply(place, reply, "Because [1].")
    assert chats.thread(place.chat).messages[-1].content.sources == replace(sources, unsupported=())
    assert chats.message(reply).content.sources == sources


def test_a_deleted_message_goes_with_what_follows_it(chats: Chats) -> None:
    place, first = answer(chats, chats.create(), "Why?", "So.")
    place, _ = answer(chats, place, "And?", "That.")
    chats.remove(place, first)
    assert texts(chats, place.chat) == ["Why?"]
    assert not chats.search("That")
    assert chats.texts_before(place.chat) == (), (
        "an unanswered question is not sent: some templates refuse it"
    )


def test_deleted_messages_come_back_with_their_versions_and_the_path_that_was_shown(chats: Chats) -> None:
    place, first = answer(chats, chats.create(), "Why?", "So.")
    place, _ = answer(chats, place, "And?", "That.")
    place = chats.edit_reply(place, first, "Because.")
    place = chats.show(place, first)
    before = chats.thread(place.chat).messages
    order = chats.summaries()
    place = chats.remove(place, before[2].id)
    place = chats.remove(place, before[1].id)
    assert texts(chats, place.chat) == ["Why?", "Because."]
    for _ in range(2):
        chats.put_back(place.chat)
    assert (chats.thread(place.chat).messages, chats.summaries()) == (before, order)
    assert [found.summary.id for found in chats.search("That")] == [place.chat]


def test_erased_messages_do_not_come_back(chats: Chats) -> None:
    place, first = answer(chats, chats.create(), "Why?", "So.")
    chats.remove(place, first)
    chats.purge()
    with pytest.raises(ChatNotFound):
        chats.put_back(place.chat)
    assert texts(chats, place.chat) == ["Why?"]


def test_another_version_takes_the_place_of_a_deleted_one(chats: Chats) -> None:
    place, first = answer(chats, chats.create(), "Why?", "So.")
    place = chats.edit_reply(place, first, "Because.")
    place = chats.remove(place, chats.thread(place.chat).messages[-1].id)
    assert texts(chats, place.chat) == ["Why?", "So."]
    question = chats.thread(place.chat).messages[0].id
    chats.remove(place, question)
    assert texts(chats, place.chat) == []


def test_an_unanswered_question_before_another_one_is_not_sent(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(), "Why?", "So.")
    place = chats.remove(place, reply)
    answer(chats, place, "And?", "That.")
    assert chats.path_texts(place.chat) == (Message("user", "And?"), Message("assistant", "That."))


@dataclass
class PlainModel:
    """A chat as lists: each message is (parent, text), its number is its place in the list plus one."""

    messages: list[tuple[int, str]] = field(default_factory=list)
    shown: int = 0

    def add(self, parent: int, text: str) -> None:
        self.messages.append((parent, text))
        self.shown = len(self.messages)

    def path(self) -> list[int]:
        path, at = [], self.shown
        while at:
            path.insert(0, at)
            at = self.messages[at - 1][0]
        return path

    def versions(self, message: int) -> list[int]:
        parent = self.messages[message - 1][0]
        return [at for at, (above, _) in enumerate(self.messages, start=1) if above == parent]

    def show(self, message: int) -> None:
        below = [at for at, (above, _) in enumerate(self.messages, start=1) if above == message]
        if below:
            self.show(below[-1])
        else:
            self.shown = message

    def replies(self) -> list[int]:
        return [at for at, (_, text) in enumerate(self.messages, start=1) if text.startswith("a")]


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "edit", "anew", "show", "continue"]), st.integers(0, 10**6)),
    max_size=25,
)


@examples(60)
@given(ACTIONS)
def test_a_chat_is_what_was_done_to_it(actions: list[tuple[str, int]]) -> None:
    database = Database(":memory:")
    chats, model = Chats(database), PlainModel()
    place = chats.create()
    for number, (action, pick) in enumerate(actions):
        place = do(chats, model, place, action, pick, f"{number}")
        compare(chats, model, place)
    compare_imported(chats, place, model)
    assert database.damage() == ""
    database.close()


def do(chats: Chats, model: PlainModel, place: ChatVersion, action: str, pick: int, text: str) -> ChatVersion:
    """The same to the chat and to the model."""
    replies = model.replies()
    chosen = replies[pick % len(replies)] if replies else 0
    if action in ("ask", "edit") or not replies:
        parent = None if action == "ask" else chosen if pick % 3 else 0
        place, reply = chats.ask(place, f"q{text}", parent)
        model.add(model.shown if parent is None else parent, f"q{text}")
        model.add(model.shown, f"a{text}")
    elif action == "anew":
        place, reply = chats.regenerate(place, chosen)
        model.add(model.messages[chosen - 1][0], f"a{text}")
    elif action == "show":
        message = pick % len(model.messages) + 1
        model.show(message)
        return chats.show(place, message)
    else:
        if chosen not in model.path():
            model.show(chosen)
        return chats.continue_reply(place, chosen)
    chats.write(reply, MessageContent(f"a{text}", "done"))
    return place


def compare(chats: Chats, model: PlainModel, place: ChatVersion) -> None:
    thread = chats.thread(place.chat, 1000)
    assert thread.version == place
    assert [message.id for message in thread.messages] == model.path()
    assert [message.text for message in thread.messages] == [model.messages[at - 1][1] for at in model.path()]
    assert [list(message.versions) for message in thread.messages] == [
        model.versions(at) for at in model.path()
    ]


def compare_imported(chats: Chats, place: ChatVersion, model: PlainModel) -> None:
    """A chat that was written out and read in is the same under other numbers."""
    other = Database(":memory:")
    with other.writing() as connection:
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('message', 1000)")
    Chats(other).import_json(chats.export_json([place.chat]))
    copied = Chats(other).thread(1, 1000)
    assert [message.id - 1000 for message in copied.messages] == model.path()
    shown = chats.thread(place.chat, 1000).messages
    assert [message.content.text for message in copied.messages] == [message.text for message in shown]
    assert [len(message.versions) for message in copied.messages] == [len(m.versions) for m in shown]
    other.close()
