"""A chat goes on in another one; messages are edited and deleted."""

from dataclasses import replace

import pytest

from app.chats import Chats
from app.errors import ChatNotFound, StaleChat
from app.values.chat import ChatSettings, MessageContent
from app.values.document import Citation, Sources
from app.values.messages import Message
from tests.chats.samples import answer


def texts_of(chats: Chats, chat: int) -> list[str]:
    return [message.text for message in chats.thread(chat).messages]


def test_a_fork_has_the_messages_down_to_one_and_leaves_its_chat_alone(chats: Chats) -> None:
    place, first = answer(chats, chats.create(ChatSettings("Be brief.")), "Why?", "So.")
    answer(chats, place, "And?", "That.")
    before = chats.thread(place.chat)
    forked = chats.fork(place.chat, first)
    assert texts_of(chats, forked.chat) == ["Why?", "So."]
    assert chats.settings(forked.chat).system == "Be brief."
    answer(chats, chats.thread(forked.chat).version, "But?", "No.")
    assert chats.thread(place.chat) == before


def test_chats_never_have_the_same_title(chats: Chats) -> None:
    places = [answer(chats, chats.create(), "Why?", "So.") for _ in range(3)]
    chats.fork(places[0][0].chat, places[0][1])
    titles = [summary.title for summary in chats.summaries()]
    assert sorted(titles) == ["Why?", "Why? (2)", "Why? (3)", "Why? (4)"]
    chats.rename(places[1][0].chat, "Mine")
    assert "Mine" in [summary.title for summary in chats.summaries()]


def test_an_edited_reply_is_a_version_beside_the_model_s_own(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(), "Why?", "So.")
    edited = chats.edit_reply(place, reply, "Because.")
    assert texts_of(chats, place.chat) == ["Why?", "Because."]
    last = chats.thread(place.chat).messages[-1]
    assert last.versions == (reply, last.id) and last.content.note == "Edited by you."
    chats.show(edited, reply)
    assert texts_of(chats, place.chat) == ["Why?", "So."]


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
    assert texts_of(chats, place.chat) == ["Why?"]
    assert not chats.search("That")
    assert chats.texts_before(place.chat) == (), (
        "an unanswered question is not sent: some templates refuse it"
    )


def test_another_version_takes_the_place_of_a_deleted_one(chats: Chats) -> None:
    place, first = answer(chats, chats.create(), "Why?", "So.")
    place = chats.edit_reply(place, first, "Because.")
    place = chats.remove(place, chats.thread(place.chat).messages[-1].id)
    assert texts_of(chats, place.chat) == ["Why?", "So."]
    question = chats.thread(place.chat).messages[0].id
    chats.remove(place, question)
    assert texts_of(chats, place.chat) == []


def test_what_is_gone_or_out_of_date_is_refused(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(), "Why?", "So.")
    newer = chats.remove(place, reply)
    with pytest.raises(StaleChat):
        chats.remove(place, reply)
    for action in (lambda: chats.remove(newer, reply), lambda: chats.fork(place.chat, reply)):
        with pytest.raises(ChatNotFound):
            action()


def test_an_unanswered_question_before_another_one_is_not_sent(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(), "Why?", "So.")
    place = chats.remove(place, reply)
    answer(chats, place, "And?", "That.")
    assert chats.path_texts(place.chat) == (Message("user", "And?"), Message("assistant", "That."))


def test_a_chat_of_thousands_of_messages_is_forked_and_cut_short(chats: Chats) -> None:
    place = chats.create(folder="Work")
    for number in range(1_100):
        place, last = chats.add(place, "user", f"Message {number}")
    forked = chats.fork(place.chat, last)
    assert len(chats.thread(forked.chat, 9_999).messages) == 1_100
    second = chats.thread(place.chat, 9_999).messages[1].id
    place = chats.remove(place, second)
    assert texts_of(chats, place.chat) == ["Message 0"]
    assert [found.summary.id for found in chats.search("Message 1099")] == [forked.chat]
    with chats.database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM message").fetchone()[0] == 1_101
        assert connection.execute("SELECT count(*) FROM chat").fetchone()[0] == 2


def test_a_fork_whose_original_is_erased_meanwhile_is_none(chats: Chats) -> None:
    place, reply = answer(chats, chats.create(), "Why?", "So.")
    chats.delete(place.chat)
    with pytest.raises(ChatNotFound):
        chats.fork(place.chat, reply)
