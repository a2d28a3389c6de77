"""What is written is whole, and on the disk before anybody is told so. Devices and links stay what they are."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from app.api.api_key import KeyFile
from app.commands.chats import _write
from app.database.database import Database
from app.database.restoring import STAGED, stage
from app.desktop.menu import MenuEntry, MenuFile, install
from app.documents.file_import import PENDING_FOLDER, PendingFiles
from app.models_registry.downloads.download_queue import SavedDownloads
from app.models_registry.hub.hub_id import HubId
from app.remote.servers import ServerFile
from app.settings import Settings, SettingsFile
from app.system.files import make_folder, replacing, sync_folder, write_file, write_output
from tests.disk import Disk

POSIX = pytest.mark.skipif(os.name != "posix", reason="Windows has no rights, devices and syncing of folders")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def settings(folder: Path) -> Path:
    SettingsFile(folder).save(Settings())
    return folder / "settings.json"


def servers(folder: Path) -> Path:
    ServerFile(folder).write(())
    return folder / "servers.json"


def api_key(folder: Path) -> Path:
    KeyFile(folder).renew()
    return folder / "api-key"


def saved_download(folder: Path) -> Path:
    SavedDownloads(folder).save(HubId("org/name", "", ""), None)
    return next(folder.glob("*.json"))


def exported(folder: Path) -> Path:
    folder.mkdir()
    _write(folder / "chats.json", "{}")
    return folder / "chats.json"


def backup(folder: Path) -> Path:
    Database(folder / "data" / "foresight.sqlite").backup(folder / "backup.sqlite")
    return folder / "backup.sqlite"


def staged(folder: Path) -> Path:
    stage(backup(folder), folder)
    return folder / STAGED


def menu_entry(folder: Path) -> Path:
    list(install(MenuEntry((MenuFile(folder / "foresight.desktop", b"[Desktop Entry]"),), "menu")))
    return folder / "foresight.desktop"


def waiting_document(folder: Path) -> Path:
    original = folder.with_name("letter.txt")
    original.write_text("Dear Ada,")
    pending = PendingFiles(folder)
    pending.keep(pending.copy(original), 7, original.name)
    return folder / PENDING_FOLDER / "7.txt"


@POSIX
@pytest.mark.parametrize(
    "written",
    [
        settings, servers, api_key, saved_download, exported, backup, staged, menu_entry, waiting_document,
    ],
)  # fmt: skip
def test_what_was_acknowledged_survives_a_power_cut(
    tmp_path: Path, disk: Disk, written: Callable[[Path], Path]
) -> None:
    assert disk.keeps(written(tmp_path / "data"))


@POSIX
def test_the_names_of_new_folders_are_on_the_disk_as_well(tmp_path: Path, disk: Disk) -> None:
    make_folder(tmp_path / "a" / "b")
    synced = [inode for step, inode in disk.done if step == "sync"]
    assert synced == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino]


def test_a_failure_keeps_the_old_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_file(tmp_path / "file", "old")
    with pytest.raises(RuntimeError, match="halfway"), replacing(tmp_path / "file") as draft:
        draft.write_text("new")
        raise RuntimeError("halfway")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "old")]


def test_files_beside_it_are_nobodys_drafts(tmp_path: Path) -> None:
    for name in ("file.new", "backup.sqlite.new", ".file.new"):
        (tmp_path / name).write_text("mine")
    write_file(tmp_path / "file", "new")
    Database(tmp_path / "data" / "foresight.sqlite").backup(tmp_path / "backup.sqlite")
    assert {(tmp_path / name).read_text() for name in ("file.new", "backup.sqlite.new", ".file.new")} == {
        "mine"
    }


@POSIX
def test_a_file_of_the_app_is_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o644)
    write_file(tmp_path / "file", "secret")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


@POSIX
def test_a_file_that_the_person_names_keeps_its_rights_and_a_link_stays_one(tmp_path: Path) -> None:
    file, link = tmp_path / "shared.json", tmp_path / "link.json"
    file.write_text("old")
    file.chmod(0o664)
    link.symlink_to(file)
    write_output(link, "new")
    assert link.is_symlink() and file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o664


@POSIX
def test_a_device_or_a_pipe_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, "words")
    assert os.read(reader, 100) == b"words" and stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)
    write_output(Path(os.devnull), "words")
    assert not Path(os.devnull).is_file()


@POSIX
def test_a_system_that_syncs_no_folders_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", refuse)
    error = 22  # EINVAL: what some network file systems say
    sync_folder(tmp_path)
    error = 5  # EIO: the disk has failed
    with pytest.raises(OSError, match="Input/output"):
        sync_folder(tmp_path)
