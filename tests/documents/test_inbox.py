"""The folder of files that wait to be read, where the disk does not do what it should."""

import errno
import shutil
from pathlib import Path

import pytest

from app.documents.inbox import NAME, Inbox
from app.errors import DocumentUnreadable, StoreFull, StoreNotUsable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "eggs.txt"
    path.write_text("Eggs boil.", encoding="utf-8")
    return path


def test_a_disk_that_takes_no_more_is_not_called_a_file_that_cannot_be_read(
    file: Path, tmp_path: Path
) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    inbox = Inbox(tmp_path / "data")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, hard))
    try:
        with pytest.raises(StoreFull, match=r"has no room for eggs\.txt: free some space"):
            inbox.copy(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.unlink()
    with pytest.raises(DocumentUnreadable, match=r"eggs\.txt cannot be read"):
        inbox.copy(file)
    assert list((tmp_path / "data" / NAME).iterdir()) == []


def test_a_copy_that_vanished_before_it_was_kept_is_a_sentence(file: Path, tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "data")
    draft = inbox.copy(file)
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(StoreNotUsable, match="choose another one with --data-dir") as told:
        inbox.keep(draft, 1, file.name)
    assert isinstance(told.value.__cause__, OSError) and told.value.__cause__.errno == errno.ENOENT
