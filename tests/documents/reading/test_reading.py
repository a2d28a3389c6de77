"""Files read as text, and what is said of those that cannot be."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.documents.reading import Moved, Told, Words, open_file
from app.documents.reading.child import ChildReading, Job
from app.documents.reading.encodings import encoding_of, is_binary
from app.errors import DocumentUnreadable
from tests.documents import files


def read(path: Path) -> tuple[str, list[str]]:
    """The text of a file, and what is told."""
    messages = list(open_file(path, path.name).messages())
    text = "".join(message.text for message in messages if isinstance(message, Words))
    return text, [message.note for message in messages if isinstance(message, Told)]


def test_a_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    path = files.pdf(tmp_path / "eggs.pdf", "Eggs boil for infor-\nmation of cooks.", "Six minutes.", "")
    text, notes = read(path)
    assert text == "Eggs boil for information of cooks.\n\n\fSix minutes.\n\n\f\n\n"
    assert notes == ["1 page of 3 without text, pictures perhaps: left out."]
    moved = [one for one in open_file(path, "eggs.pdf").messages() if isinstance(one, Moved)]
    assert moved[-1] == Moved(3, 3)


def test_a_pdf_that_anybody_may_open_is_read_though_it_is_encrypted(tmp_path: Path) -> None:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(PdfReader(files.pdf(tmp_path / "plain.pdf", "Six minutes.")))
    writer.encrypt("", "owner", algorithm="AES-128")
    with (tmp_path / "eggs.pdf").open("wb") as file:
        writer.write(file)
    assert read(tmp_path / "eggs.pdf")[0].strip() == "Six minutes."


def test_a_word_document_keeps_its_structure(tmp_path: Path) -> None:
    text, _ = read(files.docx(tmp_path / "eggs.docx"))
    assert text == "# Eggs\n\nBoil them.\n\n- salt\n| time | 6 minutes |\n\nThen cold water.\n\n"


def test_a_page_keeps_its_structure_and_loses_its_scripts(tmp_path: Path) -> None:
    page = tmp_path / "eggs.html"
    page.write_text(
        "<html><head><title>Eggs &amp; milk</title><style>p {}</style></head><body><h2>Boil <b>them</b></h2>"
        "<p>For six\n minutes.<ul><li><p>salt</li><li>water</ul><script>alert('no')</script>"
        "<pre>a = 1\n  b</pre><table><tr><td>1<td>2</table>caf&eacute;",
        encoding="utf-8",
    )
    assert read(page)[0] == (
        "Eggs & milk\n\n## Boil them\n\nFor six minutes.\n\n- salt\n- water\n\n"
        "```\na = 1\n  b\n```\n\n | 1 | 2\n\ncafé"
    )


def test_a_page_says_its_encoding(tmp_path: Path) -> None:
    page = tmp_path / "eggs.html"
    page.write_bytes('<meta charset="iso-8859-5"><p>Яйца варят шесть минут'.encode("iso-8859-5"))
    assert read(page)[0] == "Яйца варят шесть минут"


ENCODED = "Grüße, l'été à la plage: un œuf se cuit en six minutes, où qu'il soit, même là-bas."


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"]
)
def test_a_text_is_read_in_its_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "eggs.txt"
    path.write_bytes(ENCODED.encode(encoding))
    text, notes = read(path)
    assert text == ENCODED
    assert notes == (["Its encoding was guessed: cp1252."] if encoding == "cp1252" else [])


def test_an_old_japanese_text_is_guessed(tmp_path: Path) -> None:
    path = tmp_path / "eggs.txt"
    words = "卵は六分間ゆでます。それから冷たい水に入れます。" * 5
    path.write_bytes(words.encode("shift_jis"))
    assert read(path)[0] == words


def test_damaged_characters_are_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "eggs.txt"
    path.write_bytes("Grüße an alle Köche, die Eier für die Gäste wärmen: ".encode() * 3 + b"\xff\xfe!")
    text, notes = read(path)
    assert text.endswith("wärmen: \ufffd\ufffd!")
    assert notes == ["2 characters could not be read and stand as \ufffd."]


def test_bytes_that_are_no_text_are_told_from_a_text_with_zeros() -> None:
    assert is_binary(bytes(range(256)) * 4)
    assert is_binary(bytes(100))
    assert not is_binary(b"name\0\0\0\0value\0\0\n" * 10)
    assert encoding_of(b"name\0\0\0\0value\0\0\n" * 10).name == "utf-8"


SCANNED = b"%PDF-1.4\n1 0 obj\n<< >>\nendobj\n"


@pytest.mark.parametrize(
    ("name", "make", "sentence"),
    [
        ("scan.pdf", lambda path: files.pdf(path, "", ""), "no text in its 2 pages, only pictures"),
        ("locked.pdf", lambda path: files.pdf(path, "Eggs", password="x"), "locked.pdf is encrypted"),
        ("broken.pdf", lambda path: path.write_bytes(SCANNED), "broken.pdf is damaged"),
        ("bomb.docx", files.bomb, "unpacks to 1,024 MB, and up to 300 MB"),
        ("broken.docx", lambda path: path.write_bytes(b"PK\x03\x04 and no more"), "broken.docx is damaged"),
        ("things.docx", files.archive, "an archive and no Word document"),
        ("old.doc", lambda path: path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "old or encrypted Office"),
        ("letter.rtf", lambda path: path.write_bytes(b"{\\rtf1 Eggs}"), "a rich text file: save it as DOCX"),
        ("empty.txt", lambda path: path.write_bytes(b""), "empty.txt is empty"),
        ("photo.png", lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9), "is no text"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_a_sentence(
    tmp_path: Path, name: str, make: Callable[[Path], object], sentence: str
) -> None:
    make(tmp_path / name)
    with pytest.raises(DocumentUnreadable, match=sentence) as caught:
        read(tmp_path / name)
    assert str(caught.value).endswith((".", "read."))


def test_a_reader_has_so_much_memory_and_no_more(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="this system has no such limit")
    path = files.docx(tmp_path / "eggs.docx")
    reading = ChildReading(Job(str(path), path.name, "docx", memory=2**20))
    with pytest.raises(DocumentUnreadable, match=r"takes more than|ended unexpectedly|is damaged"):
        list(reading.messages())


def test_a_silent_reader_is_given_up(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "eggs.html")  # nobody ever writes into it
    reading = ChildReading(Job(str(tmp_path / "eggs.html"), "eggs.html", "html"), silence=1.0)
    with pytest.raises(DocumentUnreadable, match="was given up after 1 seconds without progress"):
        list(reading.messages())


def test_a_killed_reading_ends_without_a_word(tmp_path: Path) -> None:
    path = files.pdf(tmp_path / "eggs.pdf", *["Eggs"] * 20)
    reading = ChildReading(Job(str(path), "eggs.pdf", "pdf"))
    heard = 0
    for _ in reading.messages():
        heard += 1
        reading.kill()
    assert 0 < heard < 40
