"""Data: exports are imported, backups are checked, chats are deleted, and each is told as what it is."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from app.chats.chats import Chats
from app.conversation import NewChat
from app.database.database import database_in
from app.database.restoring import STAGED, StagedBackup, apply_staged
from app.errors import NotUploaded
from app.ui import Services
from app.ui.frame.top_bar import Notice
from app.ui.frame.uploads import uploads_dir
from app.ui.settings.data import DataActions, ImportRenderer, measure_folder, open_folder  # fmt: skip
from app.values.chat import ChatSettings, ChatVersion
from app.values.messages import Options
from tests.ui.chat.people import Visitor, pressed


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_everything_counts_once_in_its_part(tmp_path: Path) -> None:
    write(tmp_path / "foresight.sqlite", 100)
    write(tmp_path / "foresight.sqlite-wal", 50)
    write(tmp_path / "steps" / "deep" / "demo.json", 7)
    write(tmp_path / "settings.json", 5)
    write(tmp_path / "logs" / "foresight.log", 3)
    write(tmp_path / "in-use.lock", 2)
    assert measure_folder(tmp_path) == {
        "Chats and documents": 150,
        "Measurements of models": 7,
        "Logs": 3,
        "Settings": 5,
        "Other": 2,
    }


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    write(tmp_path / "outside" / "large", 1_000_000)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "documents-inbox").symlink_to(tmp_path / "outside")
    assert sum(measure_folder(tmp_path / "data").values()) < 1_000


@pytest.mark.parametrize(
    ("platform", "program"), [("linux", "xdg-open"), ("darwin", "open"), ("win32", "explorer")]
)
def test_each_system_has_its_own_way_to_open_a_folder(
    platform: str, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()
    monkeypatch.setattr("app.ui.settings.data.find_program", asked.append)
    monkeypatch.setattr("sys.platform", platform)
    assert "find a file manager" in open_folder(Path("/data"))
    assert asked == [program]


def test_without_a_file_manager_the_path_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert str(tmp_path) in open_folder(tmp_path)


def test_how_far_an_import_has_come_is_shown_until_it_ends() -> None:
    seen = iter([(0, 0), (3, 1_200), (3, 1_200), (0, 0)])
    renderer = ImportRenderer(lambda: next(seen))
    assert renderer.render()["import-progress"] == ""
    shown = renderer.render()
    assert "Importing chats: 3 of 1,200." in str(shown["import-progress"])
    assert renderer.render() is shown
    assert renderer.render()["import-progress"] == ""


@pytest.fixture
def notified() -> list[str]:
    return []


@pytest.fixture
def backup(tmp_path: Path) -> StagedBackup:
    return StagedBackup(tmp_path)


@pytest.fixture
def actions(services: Services, tmp_path: Path, backup: StagedBackup, notified: list[str]) -> DataActions:
    return DataActions(services, tmp_path, backup, notified.append)


@pytest.fixture
def exported(services: Services) -> str:
    """A chat as it is exported; it is still here."""
    person = Visitor(services)
    person.get("One?")
    return services.conversations.stores.of(person.state.version.chat).export_json(
        (person.state.version.chat,)
    )


def test_a_chat_is_exported_and_imported_again(
    actions: DataActions, services: Services, exported: str, uploads: Path
) -> None:
    saved = uploads / "chat.json"
    saved.write_text(exported, encoding="utf-8")
    assert "Imported 0 chats. One was here already." in actions.import_chats(str(saved))
    [chat] = services.conversations.stores.summaries()
    services.conversations.stores.stored.delete(chat.id)
    saved.write_text(exported, encoding="utf-8")
    assert "Imported 1 chat." in actions.import_chats(str(saved))
    assert len(services.conversations.stores.summaries()) == 1


def test_what_was_uploaded_does_not_stay_read_or_not(
    actions: DataActions, exported: str, uploads: Path
) -> None:
    files = [uploads / "a" / "chats.json", uploads / "b" / "broken.json"]
    for upload, text in zip(files, (exported, "{"), strict=True):
        upload.parent.mkdir()
        upload.write_text(text, encoding="utf-8")
        assert ('class="problem"' in actions.import_chats(str(upload))) == (text == "{")
        assert not upload.parent.exists()


def test_a_file_that_an_editor_marked_is_imported(actions: DataActions, exported: str, uploads: Path) -> None:
    (uploads / "chat.json").write_text(exported, encoding="utf-8-sig")
    assert "Imported 0 chats. One was here already." in actions.import_chats(str(uploads / "chat.json"))


@pytest.mark.parametrize("content", [b"no json", b"[1, 2]", b'{"chats": 3}', b"\xff\xfe\x00", b""])
def test_a_file_that_is_broken_is_told_and_changes_nothing(
    actions: DataActions, services: Services, uploads: Path, content: bytes
) -> None:
    (uploads / "broken.json").write_bytes(content)
    assert ".</p>" in actions.import_chats(str(uploads / "broken.json"))
    assert services.conversations.stores.summaries() == ()


@pytest.mark.parametrize(
    "take",
    [
        DataActions.import_chats,
        lambda actions, path: actions.ask_restore(path)[1],
        lambda actions, path: actions.answer_restore(pressed("restore", "", path or ""))[1],
    ],
    ids=["import", "ask", "restore"],
)
def test_a_file_that_was_not_uploaded_is_neither_read_nor_removed(
    actions: DataActions, uploads: Path, tmp_path: Path, exported: str,
    take: Callable[[DataActions, str], str],
) -> None:  # fmt: skip
    own = tmp_path / "chats.json"
    own.write_text(exported, encoding="utf-8")
    for path in (own, uploads / "nowhere.json"):
        assert str(NotUploaded()) in take(actions, str(path))
    assert (actions.import_chats(None), actions.ask_restore(None), own.exists()) == ("", ("", ""), True)


@pytest.fixture
def copied(services: Services, uploads: Path) -> Path:
    """A backup with one chat that was uploaded."""
    services.conversations.stores.stored.create(title="Kept")
    services.conversations.stores.stored.database.backup(uploads / "backup.sqlite")
    return uploads / "backup.sqlite"


def test_a_backup_that_was_asked_about_is_restored_at_the_next_start(
    actions: DataActions, backup: StagedBackup, copied: Path, tmp_path: Path
) -> None:
    question, problem = actions.ask_restore(str(copied))
    assert "Restore backup.sqlite?" in question and str(copied) in question and not problem
    assert not (tmp_path / STAGED).exists(), "it was not answered yet"
    assert actions.answer_restore(pressed("restore", "", str(copied))) == ("", "")
    assert "backup.sqlite will be restored" in Notice(str, backup).html()
    assert not copied.exists(), "an upload is read once"
    assert "was restored" in apply_staged(tmp_path)
    with closing(database_in(tmp_path)) as database:
        assert [chat.title for chat in Chats(database).summaries()] == ["Kept"]


def test_a_backup_that_is_not_wanted_after_all_is_forgotten(
    actions: DataActions, backup: StagedBackup, copied: Path, tmp_path: Path
) -> None:
    content = copied.read_bytes()
    actions.answer_restore(pressed("no", "", str(copied)))
    assert (copied.exists(), apply_staged(tmp_path), backup.name) == (False, "", "")
    copied.write_bytes(content)
    actions.answer_restore(pressed("restore", "", str(copied)))
    notice = Notice(str, backup)
    notice.act(pressed("keep-chats"))
    assert (notice.html(), apply_staged(tmp_path)) == ("", "")


def test_a_file_that_is_no_backup_is_refused_before_it_is_asked_about(
    actions: DataActions, uploads: Path, tmp_path: Path
) -> None:
    (uploads / "photo.sqlite").write_bytes(b"a photo")
    question, problem = actions.ask_restore(str(uploads / "photo.sqlite"))
    assert question == "" and "is not a whole backup" in problem
    assert apply_staged(tmp_path) == "" and not (uploads / "photo.sqlite").exists()


def test_all_chats_can_be_deleted_private_ones_too(
    actions: DataActions, services: Services, tmp_path: Path
) -> None:
    for is_private in (False, True):
        services.conversations.start(
            NewChat(ChatVersion(), services.asked(Options()), "My secret", ChatSettings(), is_private)
        )
    upload = uploads_dir(tmp_path) / ("a" * 64) / "chats.json"
    upload.parent.mkdir(parents=True)
    upload.write_text("My secret", encoding="utf-8")
    assert len(services.conversations.stores.summaries()) == 2
    folder, question = actions.delete_chats()
    assert str(tmp_path) in folder and "All chats were deleted." in question
    assert services.conversations.stores.summaries() == ()
    assert all(b"My secret" not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
