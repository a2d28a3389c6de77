"""Files that nobody should have, all at once: each ends with a sentence or is read, and the rest is as it was."""

from pathlib import Path

import pytest

from app.database.database import Database
from app.documents.documents import Documents
from tests.documents import files
from tests.documents.test_documents import EGGS


def hostile_files(folder: Path) -> dict[str, str]:
    """Files, and what is said of each; "" for one that is read without a word."""
    files.pdf(folder / "scan.pdf", "", "")
    files.pdf(folder / "locked.pdf", "Eggs", password="x")
    whole = files.pdf(folder / "whole.pdf", *["Eggs"] * 9).read_bytes()
    files.bomb(folder / "bomb.docx")
    bytes_of = {
        "cut.pdf": whole[: len(whole) // 3],
        "noise.docx": b"PK\x03\x04" + bytes(range(256)) * 50,
        "deep.html": b"<div>" * 100_000 + b"Eggs boil.",
        "open.html": b"<p>Milk boils.<script>" + b"never closed " * 10_000,
        "empty.txt": b"",
        "blank.txt": b" \n\t" * 1000,
        "zeros.bin": bytes(5000),
        "program.exe": b"MZ" + bytes(range(256)) * 50,
        "torn.txt": "Grüße von den Köchen. ".encode() * 50 + b"\xc3",
        "nul.txt": b"Eggs\0boil.\0",
        "line.txt": b"Eggs boil and boil and boil, " * 350_000,
        "marks.md": b"#" * 100_000 + b"\n" + b"`" * 100_000 + b"\n" + b"- " * 50_000,
    }
    for name, content in bytes_of.items():
        (folder / name).write_bytes(content)
    return {
        "scan.pdf": "has no text in its 2 pages",
        "locked.pdf": "is encrypted",
        "bomb.docx": "unpacks to 400 MB",
        "cut.pdf": "is damaged",
        "noise.docx": "is damaged",
        "empty.txt": "is empty",
        "blank.txt": "There is no text in blank.txt",
        "zeros.bin": "is a program",
        "program.exe": "is a program",
        "torn.txt": "1 character could not be read",
        "nul.txt": "2 NUL characters were removed.",
    }


@pytest.mark.thorough
def test_each_hostile_file_has_its_sentence_and_harms_nothing(
    documents: Documents, database: Database, notes: int, tmp_path: Path
) -> None:
    eggs = documents.paste(notes, EGGS)
    sentences = hostile_files(tmp_path)
    documents.add_files(notes, sorted(path for path in tmp_path.iterdir() if path.is_file()))
    documents.wait()
    seen = {one.source: one for one in documents.documents(notes)}
    assert {name: seen[name].note for name, part in sentences.items() if part not in seen[name].note} == {}
    read = {name for name, one in seen.items() if one.state == "ready"}
    assert read == {
        "pasted",
        "whole.pdf",
        "deep.html",
        "open.html",
        "torn.txt",
        "nul.txt",
        "line.txt",
        "marks.md",
    }
    assert all(one.note or name in read for name, one in seen.items())
    assert documents.text(eggs) == EGGS and database.damage() == ""
