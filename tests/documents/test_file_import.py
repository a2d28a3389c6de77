"""Files on their way into the database: how their copies wait, and how much of a text is taken."""

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.database.database import Database
from app.documents import document_table, file_import, text_table
from app.documents.documents import Documents
from app.documents.file_import import PENDING_FOLDER, FileImport, PendingFiles, title_in
from app.documents.indexing import Task
from app.documents.reading.process import TextPiece
from app.errors import DocumentUnreadable, StoreFull, StoreNotUsable

PART = "Eggs boil. " * 10_000


class EndlessReading:
    """A small file that unpacks to no end."""

    def messages(self) -> Iterator[TextPiece]:
        while True:
            yield TextPiece(PART)

    def kill(self) -> None:
        """Nothing runs."""


@pytest.fixture
def task(database: Database) -> Task:
    with database.writing() as connection:
        notes = document_table.create_collection(connection, 0.0, "Notes")
        return Task(database, document_table.add(connection, notes, "eggs.txt", "eggs.txt", 0.0))


def stored(task: Task) -> int:
    with task.database.reading() as connection:
        return len(text_table.whole(connection, task.document))


def test_a_file_that_unpacks_to_no_end_is_refused_and_leaves_nothing(task: Task) -> None:
    begun = FileImport(task, "eggs.txt", max_characters=3_000_000)
    with pytest.raises(DocumentUnreadable, match=r"eggs\.txt has more than 3,000,000 characters: split it"):
        begun.read(EndlessReading())
    assert 0 < stored(task) <= 3_000_000
    begun.drop()
    assert stored(task) == 0


def test_of_a_file_with_too_much_in_it_no_text_is_kept(task: Task, tmp_path: Path) -> None:
    (tmp_path / "eggs.txt").write_text("Eggs boil. " * 300_000)
    waiting = PendingFiles(tmp_path / "data")
    waiting.keep(waiting.copy(tmp_path / "eggs.txt"), task.document, "eggs.txt")
    with pytest.raises(DocumentUnreadable, match="has more than 2,000,000 characters"):
        file_import.import_file(task, waiting, 0.0, max_characters=2_000_000)
    assert stored(task) == 0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "eggs.txt"
    path.write_text("Eggs boil.", encoding="utf-8")
    return path


def test_a_disk_that_takes_no_more_is_not_called_a_file_that_cannot_be_read(
    file: Path, tmp_path: Path
) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    inbox = PendingFiles(tmp_path / "data")
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
    assert list((tmp_path / "data" / PENDING_FOLDER).iterdir()) == []


def test_a_copy_that_vanished_before_it_was_kept_is_a_sentence(file: Path, tmp_path: Path) -> None:
    inbox = PendingFiles(tmp_path / "data")
    draft = inbox.copy(file)
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(StoreNotUsable, match="choose another data folder with --data-dir") as seen:
        inbox.keep(draft, 1, file.name)
    assert isinstance(seen.value.__cause__, OSError) and seen.value.__cause__.errno == errno.ENOENT


def test_abandoned_drafts_go_and_files_of_others_stay(tmp_path: Path) -> None:
    inbox = tmp_path / PENDING_FOLDER
    inbox.mkdir()
    for name in ("draft-" + "0" * 32, "1.txt", "2.txt", "2024.pdf", "draft-letter.txt", "notes.md"):
        (inbox / name).touch()
        os.utime(inbox / name, (0, 0))
    PendingFiles(tmp_path).keep_only({2}, last=2)
    assert sorted(path.name for path in inbox.iterdir()) == [
        "2.txt",
        "2024.pdf",
        "draft-letter.txt",
        "notes.md",
    ]


@pytest.mark.parametrize(
    ("name", "title"),
    [
        (b"two\nlines.txt", "two\ufffdlines.txt"),
        (b"red \x1b[31m\x07.txt", "red \ufffd[31m\ufffd.txt"),
        ("named \u202etxt.exe.txt".encode(), "named \ufffdtxt.exe.txt"),
        ("\u2066\u200fright.txt".encode(), "\ufffd\ufffdright.txt"),
        (b"no text \xff\xfe.txt", "no text \ufffd\ufffd.txt"),
        (b"x" * 251 + b".txt", "x" * 251 + ".txt"),
        (b"a." + b"x" * 253, "a." + "x" * 253),
        (b"<script>.txt", "<script>.txt"),
        ("Füße 蛋.txt".encode(), "Füße 蛋.txt"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes any bytes for a name")
def test_a_file_of_any_name_is_read_and_named_so_that_it_can_be_shown(
    documents: Documents, notes: int, tmp_path: Path, name: bytes, title: str
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    path.write_text("Eggs boil.", encoding="utf-8")
    (document,) = documents.add_files(notes, [path])
    documents.wait()
    assert (documents.document(document).title, documents.document(document).state) == (title, "ready")
    path.unlink()
    with pytest.raises(DocumentUnreadable) as seen:
        documents.add_files(notes, [path])
    assert title in str(seen.value)


@pytest.mark.parametrize(
    ("own", "beginning", "name", "title"),
    [
        ("House  rules", "# Rules", "rules.html", "House rules"),
        ("", "\n# Rules\nQuiet.", "rules.md", "Rules"),
        ("", "# Slide 1: Deliveries\n", "plan.pptx", "Deliveries"),
        ("", "# a comment", "tool.py", ""),
        ("", "# Sheet1", "people.xlsx", ""),
        ("Word Document", "# Lease of **2026**\n", "lease.docx", "Lease of 2026"),
        *((own, "No heading.", "lease.docx", "") for own in (
            "Microsoft Word - lease.doc", "untitled", "Untitled-1", "C:\\lease\\final", "/home/ann/lease",
            "lease.indd", "Final version.docx", "PowerPoint Presentation", "Document1", "12", " ", "...",
            "Slide 1", "(anonymous)",
        )),
        ("TCP/IP in 10 minutes", "", "x.pdf", "TCP/IP in 10 minutes"),
    ],
)  # fmt: skip
def test_a_title_is_the_files_own_unless_it_says_nothing(
    own: str, beginning: str, name: str, title: str
) -> None:
    assert title_in(own, beginning, name) == title


def test_a_title_that_is_taken_leaves_the_files_name(
    documents: Documents, notes: int, tmp_path: Path
) -> None:
    for name, words in (("may.html", "It rains."), ("june.html", "Sun all day long.")):
        (tmp_path / name).write_text(f"<title>Weather report</title><p>{words}")
    documents.add_files(notes, [tmp_path / "may.html", tmp_path / "june.html"])
    documents.wait()
    assert [one.title for one in documents.documents(notes)] == ["Weather report", "june.html"]
    assert [one.note for one in documents.documents(notes)] == ["", ""]
    found = documents.search([notes], "what does may.html say")
    assert found[0].passage.title == "Weather report"
    (tmp_path / "may.html").write_text("<title>Weather report</title><p>Nothing of that is true.")
    documents.add_files(notes, [tmp_path / "may.html"])
    documents.wait()
    assert documents.documents(notes)[-1].title == "Weather report (2)"
