"""What is typed is there again: soon on the disk, never for a chat that is gone."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.chats.chats import Chats, ChatStores
from app.conversation.drafts import Drafts
from app.database.database import MEMORY, Database
from app.errors import StoreNotUsable
from tests.chats.samples import answer


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[ChatStores]:
    with closing(Database(tmp_path / "chats.db")) as stored, closing(Database(MEMORY)) as memory:
        yield ChatStores(Chats(stored), Chats(memory))


def test_a_draft_is_there_at_once_and_after_a_restart(stores: ChatStores) -> None:
    place, _ = answer(stores.stored, stores.stored.create(), "Why?", "So.")
    drafts = Drafts(stores, seconds=60)
    drafts.keep(place.chat, "And th")
    drafts.keep(0, "Something new")
    assert (drafts.of(place.chat), drafts.of(0)) == ("And th", "Something new")
    assert Drafts(stores).of(0) == "", "it is not on the disk yet"
    drafts.save()
    assert (Drafts(stores).of(place.chat), Drafts(stores).of(0)) == ("And th", "Something new")
    drafts.keep(place.chat, "")
    drafts.save()
    assert Drafts(stores).of(place.chat) == ""


def test_typing_changes_the_database_once_a_while(stores: ChatStores) -> None:
    drafts = Drafts(stores, seconds=60)
    before = stores.changes
    for length in range(20):
        drafts.keep(0, "x" * length)
    assert stores.changes == before
    drafts.save()


def test_a_chat_that_is_gone_takes_its_draft_along(stores: ChatStores) -> None:
    place, _ = answer(stores.stored, stores.stored.create(), "Why?", "So.")
    drafts = Drafts(stores, seconds=60)
    drafts.keep(place.chat, "And")
    drafts.save()
    stores.stored.delete(place.chat)
    stores.stored.restore(place.chat)
    assert drafts.of(place.chat) == "And", "a deletion that is undone"
    stores.stored.delete(place.chat)
    stores.stored.purge()
    drafts.keep(place.chat, "And th")
    drafts.save()
    assert drafts.of(place.chat) == ""
    drafts.keep(0, "New")
    drafts.save()
    stores.delete_all()
    assert drafts.of(0) == ""


def test_what_cannot_be_saved_is_kept(stores: ChatStores, monkeypatch: pytest.MonkeyPatch) -> None:
    drafts = Drafts(stores, seconds=60)

    def refuse(_chat: int, _text: str) -> None:
        raise StoreNotUsable("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(stores.stored, "set_draft", refuse)
        drafts.keep(0, "Keep me")
        drafts.save()
    assert drafts.of(0) == "Keep me"
    drafts.save()
    assert Drafts(stores).of(0) == "Keep me"
