"""What the app starts with, and what it leaves in the database when it ends."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.database.database import Database
from app.documents.documents import Documents
from app.errors import BadOption
from app.settings import Settings
from app.startup import (
    ModelAsked,
    asked_settings,
    attached_with_chats,
    erasing,
    log_path,
    open_chat_stores,
    write_log,
)
from app.ui import Deletions
from app.values.chat import ChatSettings
from app.values.chat_format import Thinking
from app.values.messages import ModelChoice
from tests.support.waiting import until


def test_the_model_of_the_command_line_takes_the_place_of_the_last_one() -> None:
    last = Settings(ModelChoice("org/a", "float32", draft_model="org/b"))
    assert asked_settings(last, ModelAsked()) == last
    assert asked_settings(last, ModelAsked(draft_model="")).model == ModelChoice("org/a", "float32")
    assert asked_settings(last, ModelAsked("org/c")).model == ModelChoice("org/c")
    assert asked_settings(last, ModelAsked("org/c")).loaded == (ModelChoice("org/c"),)
    with pytest.raises(BadOption, match="Model must be a folder or a hub id; it is “”"):
        asked_settings(last, ModelAsked(""))


def test_a_path_of_the_command_line_is_remembered_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert asked_settings(Settings(), ModelAsked("model")).loaded == (ModelChoice(str(tmp_path / "model")),)


def test_a_draft_model_beside_a_model_of_a_server_is_refused() -> None:
    last = Settings(ModelChoice("org/a", server="https://example.org/v1"))
    with pytest.raises(BadOption, match=r"org/a runs on a server, so --draft-model would not be used"):
        asked_settings(last, ModelAsked(draft_model="org/b"))
    assert asked_settings(last, ModelAsked("org/c", "org/b")).model == ModelChoice(
        "org/c", draft_model="org/b"
    )


def left(database: Database) -> list[str]:
    with database.reading() as connection:
        return [row["title"] for row in connection.execute("SELECT title FROM chat")]


def test_a_deleted_chat_is_forgotten_when_the_app_ends_however_it_does(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "foresight.sqlite")) as database:
        with pytest.raises(KeyboardInterrupt), open_chat_stores(database) as stores:
            stores.stored.create(title="kept")
            stores.stored.delete(stores.stored.create(title="deleted").chat)
            assert left(database) == ["kept", "deleted"], "so that it can be undone"
            raise KeyboardInterrupt
        assert left(database) == ["kept"]


def test_a_deleted_chat_of_a_run_that_was_killed_is_forgotten_at_the_start(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "foresight.sqlite")) as database:
        with open_chat_stores(database) as stores:
            chat = stores.stored.create(title="deleted").chat
        with database.writing() as connection:
            connection.execute("UPDATE chat SET deleted = 1.0 WHERE id = ?", (chat,))
        with open_chat_stores(database):
            assert left(database) == []


def test_what_is_attached_goes_with_its_chat_when_the_app_ends_or_at_the_next_start(tmp_path: Path) -> None:
    with (
        closing(Database(tmp_path / "foresight.sqlite")) as database,
        closing(Documents(database, tmp_path)) as documents,
        open_chat_stores(database) as stores,
    ):
        chats, mine = stores.stored, documents.create("Mine")
        own = {title: documents.create_attached(title) for title in ("kept", "deleted", "never sent")}
        kept, gone = (
            chats.create(ChatSettings(collections=(own[title],))).chat for title in ("kept", "deleted")
        )
        with attached_with_chats(documents, stores):
            assert {one.id for one in documents.collections()} == {mine, own["kept"], own["deleted"]}
            chats.delete(gone)
            chats.restore(gone)
            chats.delete(kept)
        assert {one.id for one in documents.collections()} == {mine, own["deleted"]}


class Clock:
    """A clock that counts how often somebody looks at it."""

    def __init__(self) -> None:
        self.seconds, self.looks = 0.0, 0

    def __call__(self) -> float:
        self.looks += 1
        return self.seconds


def test_what_was_deleted_is_erased_when_it_can_no_longer_be_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.startup.ERASING_SECONDS", 0.01)
    clock = Clock()
    deletions = Deletions(clock)
    with (
        closing(Database(tmp_path / "foresight.sqlite")) as database,
        closing(Documents(database, tmp_path)) as documents,
        open_chat_stores(database) as stores,
    ):
        chats = stores.stored
        place, message = chats.add(chats.create(title="kept"), "user", "A jqxwzkvb")
        gone = chats.create(title="gone").chat
        note = documents.paste(documents.create("Notes"), "A jqxwzkvb", "Note")
        documents.wait()
        with erasing(deletions, chats, documents):
            deletions.delete("", lambda: chats.delete(gone), lambda: chats.restore(gone))
            deletions.delete("", lambda: chats.remove(place, message), lambda: chats.put_back(place.chat))
            deletions.delete("", lambda: documents.remove(note), lambda: documents.restore([note]))
            until(lambda: clock.looks > 9)
            assert left(database) == ["kept", "gone", ""], "Undo is still offered"
            clock.seconds = 61.0
            until(lambda: left(database) == ["kept"] and not count_of(database, "document"))
            until(lambda: not any(b"qxwzkvb" in file.read_bytes() for file in tmp_path.glob("*.sqlite*")))


def count_of(database: Database, table: str) -> int:
    with database.reading() as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[logging.Handler]:
    made = write_log(log_path(tmp_path))
    assert made is not None
    yield made
    logging.getLogger().removeHandler(made)
    made.close()


def test_a_log_whose_folder_is_gone_says_nothing_on_the_terminal(
    handler: logging.Handler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(tmp_path / "logs")
    handler.handle(logging.LogRecord("app", logging.WARNING, __file__, 1, "documents wait", None, None))
    assert capsys.readouterr() == ("", "")
    (tmp_path / "logs").mkdir()
    handler.handle(logging.LogRecord("app", logging.WARNING, __file__, 1, "documents go on", None, None))
    assert "documents go on" in log_path(tmp_path).read_text(encoding="utf-8")


def test_a_model_of_the_command_line_thinks_as_was_chosen_for_it() -> None:
    last = Settings(model=ModelChoice("org/a")).with_thinking(Thinking("high"))
    other = asked_settings(last, ModelAsked("org/b"))
    assert other.options.thinking == Thinking()
    assert asked_settings(last, ModelAsked()).options.thinking == Thinking("high")
    assert asked_settings(other, ModelAsked("org/a")).options.thinking == Thinking("high")
