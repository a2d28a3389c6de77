"""Files read as text, and what is said of those that cannot be."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from docx import Document
from docx.enum.style import WD_STYLE_TYPE

from app.documents.reading import process_main
from app.documents.reading.files import encoding_of, is_binary
from app.documents.reading.formats import open_reader
from app.documents.reading.html import Page
from app.documents.reading.process import (
    PIECE,
    ProcessReader,
    ReadEnded,
    ReadFailed,
    ReadMessage,
    ReadNote,
    ReadProgress,
    ReadRequest,
    TextPiece,
    message_from_line,
    reader_of,
    seconds_for,
    to_line,
)
from app.errors import DocumentUnreadable
from app.system.child_process import ChildProcess, importing_environment, message_in
from app.values.document import MARGINS
from tests.documents import files

NO_MESSAGES = (
    b"a library's warning\n", b'{"is": "Nobody"}\n', b'{"is": "TextPiece"}\n', b'{"is": "TextPiece", "text": 5}\n',
    b'{"is": "ReadProgress", "done": "1", "total": 2}\n', b'{"is": ["TextPiece"]}\n', b'{"is": "TextPiece", "te\n',
    b"[]\n", b"null\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n",
)  # fmt: skip


def read(path: Path) -> tuple[str, list[str]]:
    """The text of a file, and what is told, without a process of its own."""
    reader = open_reader(path, path.name)
    if isinstance(reader, ProcessReader):
        return _joined(reader_of(reader.request.form)(path, path.name))
    return _joined(reader.messages())


def read_apart(path: Path) -> tuple[str, list[str]]:
    """The same as the app reads it: if need be, in a process of its own."""
    return _joined(open_reader(path, path.name).messages())


def _joined(read: Iterator[ReadMessage]) -> tuple[str, list[str]]:
    messages = list(read)
    text = "".join(message.text for message in messages if isinstance(message, TextPiece))
    return text, [message.note for message in messages if isinstance(message, ReadNote)]


def test_a_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    path = files.pdf(tmp_path / "eggs.pdf", "Eggs boil for infor-\nmation of cooks.", "Six minutes.", "")
    text, notes = read(path)
    assert text == "Eggs boil for information of cooks.\n\n\fSix minutes.\n\n\f\n\n"
    assert notes == ["Left out: page 3 of 3 without text (perhaps only pictures)."]
    moved = [one for one in open_reader(path, "eggs.pdf").messages() if isinstance(one, ReadProgress)]
    assert moved[-1] == ReadProgress(3, 3)


@pytest.mark.parametrize("page", ["/g12/g34/g5 /g7/g8", "(cid:12)(cid:9) (cid:3)", "\x0f\x10\x11 \x12\x0f",
                                  "DDeeppoossiitt:: 990000 eeuurrooss"])  # fmt: skip
def test_a_page_without_letters_is_left_out_and_told(tmp_path: Path, page: str) -> None:
    pages = ["The rent is 740 euros.", page, page, "It is due in May.", page]
    text, notes = read(files.pdf(tmp_path / "lease.pdf", *pages))
    assert " ".join(text.split()) == "The rent is 740 euros. It is due in May."
    assert notes == ["Left out: pages 2-3, 5 of 5 without readable letters: have the text recognised (OCR)."]


def test_letters_that_a_font_does_not_name_count_if_they_are_words(tmp_path: Path) -> None:
    words = files.pdf(
        tmp_path / "lease.pdf", "The rent is 740 euros and it is due in May.", font=files.UNNAMED
    )
    assert read(words)[0].startswith("The rent is 740 euros")
    with pytest.raises(
        DocumentUnreadable, match="no readable letters in its 1 page, perhaps only pictures or un"
    ):
        read(files.pdf(tmp_path / "shifted.pdf", "GUR ERAG VF QHR VA ZNL", font=files.UNNAMED))


def test_a_pdf_that_anybody_may_open_is_read_though_it_is_encrypted(tmp_path: Path) -> None:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(PdfReader(files.pdf(tmp_path / "plain.pdf", "Six minutes.")))
    writer.encrypt("", "owner", algorithm="AES-128")
    with (tmp_path / "eggs.pdf").open("wb") as file:
        writer.write(file)
    assert read(tmp_path / "eggs.pdf")[0].strip() == "Six minutes."


def test_a_word_document_keeps_its_structure(tmp_path: Path) -> None:
    text, _ = read_apart(files.docx(tmp_path / "eggs.docx"))
    assert text == "# Eggs\n\nBoil them.\n\n- salt\n| time | 6 minutes |\n\nThen cold water.\n\n"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<w:p>[Rent: ]<w:ins>[740]</w:ins><w:del><w:r><w:delText>700</w:delText></w:r></w:del>[ euros]</w:p>",
         "Rent: 740 euros\n\n"),
        ("<w:p>[By ]<w:sdt><w:sdtPr/><w:sdtContent>[Ann]</w:sdtContent></w:sdt><w:r><w:tab/></w:r>[Lee]</w:p>",
         "By Ann\tLee\n\n"),
        ("<w:sdt><w:sdtContent><w:p>[Whole]</w:p><w:p>[paragraphs]</w:p></w:sdtContent></w:sdt>",
         "Whole\n\nparagraphs\n\n"),
        ("<w:p>[Moved ]<w:moveFrom>[away]</w:moveFrom><w:moveTo>[here]</w:moveTo></w:p>", "Moved here\n\n"),
        ("<w:p><m:oMath><m:r><m:t>E=mc²</m:t></m:r></m:oMath></w:p>", "E=mc²\n\n"),
        ("<w:p>[Beside]<w:r><mc:AlternateContent><mc:Choice><w:txbxContent><w:p>[a box]</w:p></w:txbxContent>"
         "</mc:Choice><mc:Fallback><w:txbxContent><w:p>[a box]</w:p></w:txbxContent></mc:Fallback>"
         "</mc:AlternateContent></w:r></w:p>", "Beside\n\na box\n\n"),
        ("<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val='3'/></w:tcPr><w:p>[MERGED]</w:p></w:tc></w:tr></w:tbl>",
         "| MERGED |\n\n"),
        ("<w:tbl><w:tr><w:tc><w:tcPr><w:vMerge w:val='restart'/></w:tcPr><w:p>[down]</w:p></w:tc>"
         "<w:tc><w:p>[1]</w:p></w:tc></w:tr>"
         "<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p/></w:tc><w:tc><w:p>[2]</w:p></w:tc></w:tr></w:tbl>",
         "| down | 1 |\n|  | 2 |\n\n"),
        ("<w:tbl><w:tr><w:tc><w:p>[outer]</w:p><w:tbl><w:tr><w:tc><w:p>[inner]</w:p></w:tc></w:tr></w:tbl></w:tc>"
         "</w:tr><w:tr><w:trPr><w:del/></w:trPr><w:tc><w:p>[deleted]</w:p></w:tc></w:tr></w:tbl>",
         "| outer | inner | |\n\n"),
        ("<w:p><w:pPr><w:framePr w:dropCap='drop'/></w:pPr>[T]</w:p><w:p>[he rent is 740 euros.]</w:p>",
         "The rent is 740 euros.\n\n"),
        ("<w:p>[Plan:]<w:r><w:drawing><wp:inline><wp:docPr id='1' name='i' descr='The exit is left.'/></wp:inline>"
         "</w:drawing></w:r></w:p>", "Plan: [Picture: The exit is left.]\n\n"),
        ("<w:p><w:pPr><w:outlineLvl w:val='1'/></w:pPr>[Delivery]</w:p>", "## Delivery\n\n"),
    ],
    ids=["inserted", "control", "control around", "moved", "formula", "box", "across", "down", "nested",
         "drop cap", "picture", "outline"],
)  # fmt: skip
def test_a_word_document_loses_no_words(tmp_path: Path, markup: str, text: str) -> None:
    assert read(files.marked_docx(tmp_path / "lease.docx", markup)) == (text, [])


FIELD = "<w:r><w:fldChar w:fldCharType='%s'/></w:r>"
TOC = "<w:r><w:instrText>%s</w:instrText></w:r>".join((FIELD % "begin", "%s"))


@pytest.mark.parametrize(
    ("markup", "note"),
    [
        ("<w:r><c:chart xmlns:c='http://x/chart'/></w:r>", "Left out: 1 chart."),
        (TOC % ("TOC", FIELD % "end"), "Left out: 1 field without a stored result, such as a table of contents. "
         "Update the fields in Word, save the file, and add it again."),
        (TOC % ("TOC", FIELD % "separate" + "[Rent, page 2]" + FIELD % "end"), ""),
        (TOC % ("XE rent", FIELD % "end"), ""),
    ],
)  # fmt: skip
def test_charts_and_fields_that_have_no_text_are_told(tmp_path: Path, markup: str, note: str) -> None:
    paper = files.marked_docx(tmp_path / "lease.docx", f"<w:p>[The rent.]{markup}</w:p>")
    text, notes = read(paper)
    assert text.startswith("The rent.") and notes == [note] * bool(note)


def test_the_words_of_a_diagram_follow_its_paragraph(tmp_path: Path) -> None:
    paper = files.docx(tmp_path / "eggs.docx")
    with zipfile.ZipFile(paper) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    words = "<a:p xmlns:a='http://schemas.openxmlformats.org/drawingml/2006/main'>Salt</a:p>"
    name = "word/_rels/document.xml.rels"
    part = b'<Relationship Id="rId99" Type="http://x/diagramData" Target="data1.xml"/></Relationships>'
    parts |= {
        "word/data1.xml": f"<d>{words}</d>".encode(),
        name: parts[name].replace(b"</Relationships>", part),
        "word/document.xml": parts["word/document.xml"].replace(b"</w:t>", DIAGRAM, 1),
    }
    with zipfile.ZipFile(paper, "w") as archive:
        for one, data in parts.items():
            archive.writestr(one, data)
    assert read(paper)[0].startswith("# Eggs\n\nSalt\n\nBoil them.")


def test_a_footnote_stands_behind_its_paragraph(tmp_path: Path) -> None:
    text, notes = read(
        files.marked_docx(
            tmp_path / "lease.docx",
            "<w:p>[The rent is 740 euros]<w:r><w:footnoteReference w:id='2'/></w:r></w:p><w:p>[Signed.]</w:p>",
            footnotes="<w:footnote w:id='2'><w:p>[Without heating.]</w:p></w:footnote>",
        )
    )
    assert (text, notes) == ("The rent is 740 euros\n\nWithout heating.\n\nSigned.\n\n", [])


def test_what_stands_above_each_page_is_left_out_and_told(tmp_path: Path) -> None:
    paper = files.marked_docx(tmp_path / "lease.docx", "<w:p>[Signed.]</w:p>", header="Draft, page 1")
    assert read(paper) == ("Signed.\n\n", ["The headers and footers of the pages were left out."])
    numbered = files.marked_docx(tmp_path / "numbered.docx", "<w:p>[Signed.]</w:p>", header="1")
    assert read(numbered)[1] == []


def test_a_page_keeps_its_structure_and_loses_its_scripts(tmp_path: Path) -> None:
    page = tmp_path / "eggs.html"
    page.write_text(
        "<html><head><title>Eggs &amp; milk</title><style>p {}</style></head><body><h2>Boil <b>them</b></h2>"
        "<p>For six\n minutes.<ul><li><p>salt</li><li>water</ul><script>alert('no')</script>"
        "<pre>a = 1\n  b</pre><table><tr><td>1<td>2</table>caf&eacute;",
        encoding="utf-8",
    )
    assert read(page)[0] == (
        "## Boil them\n\nFor six minutes.\n\n- salt\n\n- water\n\n```\na = 1\n  b\n```\n\n | 1 | 2\n\ncafé"
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


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("iso8859_2", "Najemca płaci czynsz do trzeciego dnia. Zażółć gęślą jaźń.\n"),
        ("iso8859_2", "Příliš žluťoučký kůň úpěl ďábelské ódy.\n"),
        ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy.\n"),
        ("cp1254", "Kira üçüncü iş gününde ödenir. Işığı söndürün.\n"),  # noqa: RUF001
        ("cp1252", "Hún þótti góð. Það er gott veður.\n"),
        ("cp1251", "Он сказал: «Приходи завтра» — и ушёл.\n"),
        ("cp1253", "Το ενοίκιο καταβάλλεται «την τρίτη» ημέρα.\n"),  # noqa: RUF001
        ("mac_roman", "Größe und Maße für die Tür, «café» à la plage.\n"),
        ("iso8859_2", "A bérleti díj a hónap első napján fizetendő, a felmondási idő három hónap.\n"),
        (
            "cp1250",
            "Najemnina se plača prvi dan v mesecu, odpovedni rok znaša tri mesece. Ključ je pri hišniku.\n",
        ),
        ("cp1257", "Nuoma mokama pirmą mėnesio dieną, įspėjimo terminas yra trys mėnesiai.\n"),
        ("cp1252", "20 °C; 5 µm; 3 m²\n"),
        ("utf-16-le", "卵は六分間ゆでます。\n"),
        ("utf-16-be", "租金在每月的第一天支付。\n"),
    ],
)
def test_related_encodings_are_told_apart(tmp_path: Path, encoding: str, words: str) -> None:
    path = tmp_path / "eggs.txt"
    path.write_bytes((words * 3).encode(encoding))
    assert read(path)[0] == words * 3


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
    assert notes == ["2 characters could not be read and are shown as \ufffd."]


@pytest.mark.parametrize("beginning", ["ID3", "GIF89a", "RIFF", "GGUF", "Rar!", "BZh", "    ftyp"])
def test_a_text_about_a_format_is_no_file_of_that_format(tmp_path: Path, beginning: str) -> None:
    path = tmp_path / "formats.txt"
    path.write_text(f"{beginning} is how such a file begins.")
    assert read(path) == (f"{beginning} is how such a file begins.", [])


@pytest.mark.parametrize("sample", [b"\x89PNG\r\n", b"\xe9\xe8 \xe0\xf4", b"caf\xe9 cr\xe8me"])
def test_a_guess_is_never_utf_16(sample: bytes) -> None:
    assert not encoding_of(sample).name.startswith(("utf_16", "utf-16", "utf_32", "utf-32"))


def test_bytes_that_are_no_text_are_told_from_a_text_with_zeros() -> None:
    assert is_binary(bytes(range(256)) * 4)
    assert is_binary(bytes(100))
    assert not is_binary(b"name\0\0\0\0value\0\0\n" * 10)
    assert encoding_of(b"name\0\0\0\0value\0\0\n" * 10).name == "utf-8"


DIAGRAM = (
    b'</w:t><d:relIds xmlns:d="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    b'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" r:dm="rId99"/>'
)
SCANNED = b"%PDF-1.4\n1 0 obj\n<< >>\nendobj\n"


@pytest.mark.parametrize(
    ("name", "make", "sentence"),
    [
        ("scan.pdf", lambda path: files.pdf(path, "", ""), "no text in its 2 pages, perhaps only pictures"),
        ("locked.pdf", lambda path: files.pdf(path, "Eggs", password="x"), "locked.pdf is encrypted"),
        ("broken.pdf", lambda path: path.write_bytes(SCANNED), "broken.pdf is damaged"),
        ("bomb.docx", files.bomb, "unpacks to 400 MB, but at most 300 MB"),
        ("broken.docx", lambda path: path.write_bytes(b"PK\x03\x04 and no more"), "broken.docx is damaged"),
        ("things.docx", files.archive, "an archive, not a document"),
        ("old.doc", lambda path: path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "old or encrypted Office"),
        ("tiny.png", lambda path: path.write_bytes(b"\x89PNG\r\n"), "tiny.png is a picture"),
        ("named.png", lambda path: path.write_bytes(b"Eggs\0 boil."), "named.png is a picture"),
        ("a.pdf", lambda path: path.write_bytes(bytes(9)), "does not have the content of a PDF file"),
        ("a.docx", lambda path: path.write_bytes(bytes(9)), "does not have the content of a DOCX file"),
        ("photo.pdf", lambda path: path.write_bytes(b"\0\0\0\x18ftypheic"), "photo.pdf is a picture"),
        ("map.pdf", lambda path: path.write_bytes(b"RIFF$\0\0\0WEBPVP8 "), "map.pdf is a picture"),
        ("song.pages", files.archive, "song.pages is a text of another word processor"),
        ("photo.txt", lambda path: path.write_bytes(b"\xff\xd8\xff\xe0\0\x10JFIF"), "photo.txt is a picture"),
        ("film.md", lambda path: path.write_bytes(b"\0\0\0\x20ftypisom"), "film.md is a video"),
        ("things.zip", files.archive, "an archive, not a document: add the files in it"),
        ("sums.xlsx", files.archive, "an archive, not a document"),
        ("noise", lambda path: path.write_bytes(b"\x01\x02\xf0\x03\x04\xff"), "Foresight can read text, "),
        ("empty.txt", lambda path: path.write_bytes(b""), "empty.txt is empty"),
        ("photo.png", lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9), "is a picture"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_a_sentence(
    tmp_path: Path, name: str, make: Callable[[Path], object], sentence: str
) -> None:
    make(tmp_path / name)
    with pytest.raises(DocumentUnreadable, match=sentence) as caught:
        read_apart(tmp_path / name)
    assert str(caught.value).endswith((".", "read."))


def test_a_reader_has_so_much_memory_and_no_more(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="this system has no such limit")
    path = files.docx(tmp_path / "eggs.docx")
    reading = ProcessReader(ReadRequest(str(path), path.name, "docx", memory=2**20))
    with pytest.raises(DocumentUnreadable, match=r"takes more than|ended unexpectedly|is damaged"):
        list(reading.messages())


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="this system has no such limit")
def test_where_the_system_allows_a_reader_less_than_that_it_reads_with_less(tmp_path: Path) -> None:
    path = files.docx(tmp_path / "eggs.docx")
    allowed = 'ulimit -v 1048576 && exec "$0" -m app.documents.reading.process_main'  # KiB
    with subprocess.Popen(
        ["sh", "-c", allowed, sys.executable],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=importing_environment(),
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout  # left open: a reader ends when it is closed
        process.stdin.write(to_line(ReadRequest(str(path), path.name, "docx")))
        process.stdin.flush()
        heard = [message_from_line(message_in(line)) for line in process.stdout]
    assert [one.text.startswith("# Eggs") for one in heard if isinstance(one, TextPiece)] == [True]
    assert heard[-1] == ReadEnded()


def test_where_the_system_knows_no_such_limit_a_reader_reads_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource", reason="this system has no such limit")

    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")  # what macOS says

    monkeypatch.setattr(resource, "setrlimit", refuse)
    heard: list[bytes] = []
    path = files.docx(tmp_path / "eggs.docx")
    process_main.read(to_line(ReadRequest(str(path), path.name, "docx")), heard.append)
    assert message_from_line(heard[-1]) == ReadEnded()


def test_a_library_that_is_missing_is_no_damage_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "app.documents.reading.docx", raising=False)
    monkeypatch.setitem(sys.modules, "docx", None)
    for limit in ("limit_memory", "limit_processor_time"):  # they would limit the process of the tests
        monkeypatch.setattr(process_main, limit, lambda _most: None)
    heard: list[bytes] = []
    path = files.docx(tmp_path / "eggs.docx")
    process_main.read(to_line(ReadRequest(str(path), path.name, "docx")), heard.append)
    failed = message_from_line(heard[-1])
    assert isinstance(failed, ReadFailed) and "a part of Foresight is missing" in failed.sentence


def test_a_library_that_does_not_fit_into_the_memory_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(_form: str) -> Any:
        raise ImportError("etree.so: failed to map segment from shared object")

    monkeypatch.setattr(process_main, "reader_of", out_of_memory)
    for limit in ("limit_memory", "limit_processor_time"):  # they would limit the process of the tests
        monkeypatch.setattr(process_main, limit, lambda _most: None)
    heard: list[bytes] = []
    process_main.read(to_line(ReadRequest(str(tmp_path / "eggs.docx"), "eggs.docx", "docx")), heard.append)
    failed = message_from_line(heard[-1])
    assert isinstance(failed, ReadFailed) and "takes more than" in failed.sentence


@pytest.mark.parametrize("line", NO_MESSAGES, ids=range(len(NO_MESSAGES)))
def test_a_line_that_is_no_message_is_one_sentence(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    class Child(ChildProcess):
        def __init__(self, _module: str, _request: bytes) -> None:
            super().__init__("tests.child_worker", line)

    monkeypatch.setattr("app.documents.reading.process.ChildProcess", Child)
    with pytest.raises(
        DocumentUnreadable, match=r"^Reading eggs\.pdf ended unexpectedly\. Save it again, or"
    ):
        list(ProcessReader(ReadRequest("/eggs.pdf", "eggs.pdf", "pdf", seconds=9)).messages())


def test_a_reader_that_is_waited_for_too_long_is_given_up(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "eggs.html")  # nobody ever writes into it
    reading = ProcessReader(ReadRequest(str(tmp_path / "eggs.html"), "eggs.html", "html"), waiting=1 / 30)
    with pytest.raises(DocumentUnreadable, match="was stopped after 1 second:"):
        list(reading.messages())


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no such limit")
def test_a_reader_that_works_for_too_long_is_stopped_whatever_it_says_meanwhile(tmp_path: Path) -> None:
    path = files.pdf(tmp_path / "eggs.pdf", *["Eggs " * 6000] * 1200)
    reading = ProcessReader(ReadRequest(str(path), "eggs.pdf", "pdf", seconds=1), waiting=60)
    with pytest.raises(DocumentUnreadable, match="takes more than 1 second of processor time: split it"):
        list(reading.messages())


def test_a_large_file_may_be_worked_on_for_longer() -> None:
    assert (seconds_for(10_000), seconds_for(2 * 2**20), seconds_for(2**30)) == (30, 90, 1800)


def test_a_long_page_comes_in_short_messages(tmp_path: Path) -> None:
    path = tmp_path / "eggs.html"
    path.write_text("Eggs boil. " * 50_000, encoding="utf-8")
    pieces = [one.text for one in open_reader(path, path.name).messages() if isinstance(one, TextPiece)]
    assert max(map(len, pieces)) <= PIECE
    assert "".join(pieces) == ("Eggs boil. " * 50_000).strip()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>a</p><!-- b --><p>c</p>", "a\n\nc"),
        ("a<!-->b<!--->c<!-- d --!>e<!-- f -- >g", "abce"),
        ("a<!-- never closed <p>b</p>", "a"),
        ("a<![CDATA[ <p> b ]]>c<!DOCTYPE html>d<?php e ?>f</>g</ h>i", "a b ]]>cdfgi"),
        ("a<b title=\"x > <!-- y\">c</b><i data-a='>' b>d</i>", "acd"),
        ('a <b title="never closed>c</b> d', "a"),
        ("a<b never closed", "a"),
        ("1 < 2 <3 a<", "1 < 2 <3 a<"),
        ("a<script>b <!-- </p> </scripts> c</script >d<STYLE>e</Style>f", "adf"),
        ("a<script src=/b/>c</script>d<script src='b'/>e<script/>f", "adef"),
        ("a<script>b</p> never closed", "a"),
        ("&lt;p&gt; &amp;amp; caf&eacute; &#65;&#x42 & &unknown;", "<p> &amp; caf\u00e9 AB & &unknown;"),
        ("<H2>a</H2>b<br/>c<td>d", "## a\n\nb\nc | d"),
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 2**16])
def test_markup_is_heard_as_a_browser_does_wherever_a_piece_ends(page: str, text: str, piece: int) -> None:
    heard = Page()
    for at in range(0, len(page), piece):
        heard.feed(page[at : at + piece])
    heard.feed("", is_last=True)
    assert heard.taken() == text


def test_notes_that_refer_to_notes_are_read_once(tmp_path: Path) -> None:
    def refer(note: int) -> str:
        return f'<w:r><w:footnoteReference w:id="{note}"/></w:r>'

    notes = "".join(
        f'<w:footnote w:id="{note}"><w:p>{refer(note % 40 + 1) * 2}[note {note}]</w:p></w:footnote>'
        for note in range(1, 41)
    )
    path = files.marked_docx(tmp_path / "notes.docx", f"<w:p>[Eggs.]{refer(1)}</w:p>", notes)
    text, _ = read(path)
    assert sorted(text.split("\n\n")[1:-1]) == sorted(f"note {note}" for note in range(1, 41))


def test_a_killed_reading_ends_without_a_word(tmp_path: Path) -> None:
    path = files.pdf(tmp_path / "eggs.pdf", *["Eggs " * 2000] * 20)  # more than a pipe holds
    reading = ProcessReader(ReadRequest(str(path), "eggs.pdf", "pdf"))
    heard = 0
    for _ in reading.messages():
        heard += 1
        reading.kill()
    assert 0 < heard < 40


@pytest.mark.parametrize("letter", ["e", "é"])
def test_a_text_whose_reading_is_killed_is_read_no_further(tmp_path: Path, letter: str) -> None:
    path = tmp_path / "eggs.txt"
    path.write_text(letter * 10 * PIECE, encoding="utf-8")
    reading, pieces = open_reader(path, path.name), 0
    for one in reading.messages():
        pieces += isinstance(one, TextPiece)
        reading.kill()
    assert pieces == 1


def test_a_word_document_is_found_by_its_type_and_may_lack_a_picture(tmp_path: Path) -> None:
    plain, broken = files.docx(tmp_path / "eggs.docx"), tmp_path / "letter.docx"
    with zipfile.ZipFile(plain) as archive, zipfile.ZipFile(broken, "w") as copy:
        for name in archive.namelist():
            data = archive.read(name).replace(b"word/document.xml", b"word/document2.xml")
            lost = (
                b'<Relationship Id="rId99" Type="http://x/image" Target="media/image9.png"/></Relationships>'
            )
            if name == "word/_rels/document.xml.rels":
                data = data.replace(b"</Relationships>", lost)
            copy.writestr(name.replace("document.xml", "document2.xml"), data)
    text, notes = read(broken)
    assert text == read(plain)[0]
    assert notes == ["Missing in the file: 1 part, such as pictures."]


def test_a_style_based_on_a_heading_is_a_heading(tmp_path: Path) -> None:
    document = Document()
    style = document.styles.add_style("Clause", WD_STYLE_TYPE.PARAGRAPH)
    style.base_style = document.styles["Heading 2"]
    document.add_paragraph("Delivery", style=style)
    document.add_paragraph("By bicycle.")
    document.save(str(tmp_path / "clauses.docx"))
    assert read(tmp_path / "clauses.docx")[0] == "## Delivery\n\nBy bicycle.\n\n"


def test_a_comment_stands_after_its_paragraph(tmp_path: Path) -> None:
    document = Document()
    paragraph = document.add_paragraph("The warranty lasts a year.")
    document.add_comment(paragraph.runs, "The board wants two.")
    document.save(str(tmp_path / "warranty.docx"))
    assert (
        read(tmp_path / "warranty.docx")[0]
        == "The warranty lasts a year.\n\nComment: The board wants two.\n\n"
    )


@pytest.mark.parametrize("name", ["rules.html5", "rules", "rules.txt"])
def test_a_page_is_recognised_by_its_beginning(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("\n<!doctype HTML><p>Quiet hours begin at <b>ten</b>.</p>")
    assert read(tmp_path / name)[0] == "Quiet hours begin at ten."


@pytest.mark.parametrize("charset", ["iso-8859-1", "x-unknown", "utf-8"])
@pytest.mark.parametrize("kind", ["plain", "html"])
def test_a_mail_is_read_with_its_headers_and_names_its_attachments(
    tmp_path: Path, kind: str, charset: str
) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "K\u00fcndigung", "a@example.org", "b@example.org"
    mail.set_content(
        "Die K\u00fcndigung betr\u00e4gt drei Monate.", subtype=kind, charset="iso-8859-1", cte="base64"
    )
    mail.add_attachment(b"%PDF-", "application", "pdf", filename="lease.pdf")
    (tmp_path / "note.eml").write_bytes(bytes(mail).replace(b"iso-8859-1", charset.encode()))
    text, notes = read(tmp_path / "note.eml")
    assert text.startswith("# K\u00fcndigung\n\nFrom: a@example.org\nTo: b@example.org\n\n")
    assert "Die K\u00fcndigung betr\u00e4gt drei Monate." in text
    assert notes == ["Attachments were left out: lease.pdf."]


def test_a_notebook_is_read_without_its_pictures(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Result\n", "The error is 3 %.\n"]},
        {
            "cell_type": "code",
            "source": "print(3)",
            "outputs": [
                {"output_type": "stream", "text": ["3\n"]},
                {"output_type": "display_data", "data": {"image/png": "iVBOR"}},
                {"output_type": "error", "traceback": ["\x1b[0;31mNameError\x1b[0m", "in 1"]},
            ],
        },
    ]
    notebook = {"cells": cells, "metadata": {"language_info": {"name": "python"}}}
    (tmp_path / "n.ipynb").write_text(json.dumps(notebook))
    text, notes = read(tmp_path / "n.ipynb")
    assert notes == ["Left out: 1 result without text, such as pictures."]
    assert (
        text
        == "# Result\nThe error is 3 %.\n\n```python\nprint(3)\n```\n\n```\n3\n```\n\n```\nNameError\nin 1\n```\n\n"
    )
    cells[1]["input"] = cells[1].pop("source")
    (tmp_path / "n.ipynb").write_text(json.dumps({**notebook, "worksheets": [{"cells": cells}]}))
    assert read(tmp_path / "n.ipynb") == (text, notes), "version 3"


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ('name,room\nAda,12\n"B, C",\n', "name: Ada; room: 12\nname: B, C\n"),
        ("name;room\r\nAda;12\r\n", "name: Ada; room: 12\n"),
        ("1,2\n3,4\n", "1,2\n3,4\n"),
        ("no table at all\n", "no table at all\n"),
    ],
)
def test_the_values_of_a_table_have_the_names_of_their_columns(tmp_path: Path, table: str, text: str) -> None:
    (tmp_path / "rooms.csv").write_text(table, newline="")
    assert read(tmp_path / "rooms.csv")[0].replace("\r", "") == text


def test_the_first_letter_beyond_ascii_decides_the_encoding(tmp_path: Path) -> None:
    path = tmp_path / "orders.txt"
    path.write_bytes(b"order 1\n" * 2**18 + "M\u00fcller & S\u00f6hne in K\u00f6ln\n".encode("cp1252"))
    text, notes = read(path)
    assert text.endswith("M\u00fcller & S\u00f6hne in K\u00f6ln\n")
    assert notes == ["Its encoding was guessed: cp1252."]


def test_the_fields_and_comments_of_a_pdf_are_read(tmp_path: Path) -> None:
    path = files.pdf(tmp_path / "lease.pdf", "Tenant name:", "No more.")
    files.annotate(path, {"/Subtype": "/Widget", "/FT": "/Tx", "/T": "tenant", "/V": "Karla Brandt"})
    files.annotate(path, {"/Subtype": "/Text", "/Contents": "deposit 1630 euros"})
    assert read(path)[0] == "Tenant name:\nKarla Brandt\ndeposit 1630 euros\n\n\fNo more.\n\n"


def test_a_pdf_whose_end_is_cut_off_is_read(tmp_path: Path) -> None:
    path = files.pdf(tmp_path / "cut.pdf", "The deposit is 900 euros")
    path.write_bytes(path.read_bytes().partition(b"startxref")[0])
    assert read(path)[0].strip() == "The deposit is 900 euros"


PAGE = """<nav><ul><li><a href=x>Home</a><li>Cart</ul></nav><div class=a role="search">Search here</div>
<h1>House rules</h1><p>Quiet hours <a href=y>begin</a> at ten.</p>
<div style="display:none">hidden <div>words</div></div>
<div id="Page-Sidebar">Our weather</div><div class="social content">Pets may stay.</div>
<p><a href=z>More houses</a> <a href=u>to rent</a></p><img alt="The exit is left">
<aside><h2>Offers</h2>Sale</aside><footer>Imprint</footer>"""


def test_menus_and_margins_of_a_page_follow_its_main_part(tmp_path: Path) -> None:
    (tmp_path / "rules.html").write_text(PAGE)
    text, _ = read(tmp_path / "rules.html")
    main, _, rest = text.partition(f"\n\n# {MARGINS}\n\n")
    assert main == (
        "# House rules\n\nQuiet hours begin at ten.\n\nPets may stay.\n\n[Picture: The exit is left]"
    )
    menus = "- Home - Cart Search here hidden words Our weather More houses to rent Offers Sale Imprint"
    assert " ".join(rest.split()) == menus
    (tmp_path / "links.html").write_text(
        "<title>Links</title><nav>All words are in a menu that has no end.<p>Even these."
    )
    assert read(tmp_path / "links.html")[0] == "All words are in a menu that has no end.\n\nEven these."


SENTENCE = (
    "Quiet hours begin at ten in the evening, and end at six in the morning or on Sundays at half past eight."
)
ARTICLE = "<h1>House rules</h1>" + f"<p>{SENTENCE}<p>Sundays<p>{SENTENCE}" * 5
ARTICLE_TEXT = "# House rules" + f"\n\n{SENTENCE}\n\nSundays\n\n{SENTENCE}" * 5


def test_the_main_part_is_the_smallest_element_with_most_paragraphs(tmp_path: Path) -> None:
    teasers = "<ul>" + "<li>A house with a garden was sold this week in our town</li>" * 2 + "</ul>"
    body = f"<p>Sign up<p>{SENTENCE.upper()}<div><div>{teasers}<div>{ARTICLE}</div></div>{teasers}</div>"
    (tmp_path / "rules.html").write_text(f"<title>Rules</title>{body}")
    main, _, rest = read(tmp_path / "rules.html")[0].partition(f"\n\n# {MARGINS}\n\n")
    assert main == ARTICLE_TEXT
    assert rest.startswith("Sign up\n\nQUIET HOURS") and rest.count("A house") == 4


def test_a_page_in_an_element_with_the_name_of_a_margin_has_a_main_part(tmp_path: Path) -> None:
    (tmp_path / "rules.html").write_text(f"<p>Sign up</p><div class=popup>{ARTICLE}</div>")
    assert read(tmp_path / "rules.html")[0] == f"{ARTICLE_TEXT}\n\n# {MARGINS}\n\nSign up"


def test_a_short_page_is_not_divided_by_its_paragraphs(tmp_path: Path) -> None:
    (tmp_path / "rules.html").write_text(f"<div><p>Rules</div><div><p>{SENTENCE}</div><p>Pets may stay.")
    assert read(tmp_path / "rules.html")[0] == f"Rules\n\n{SENTENCE}\n\nPets may stay."


def test_the_reading_process_does_not_import_what_only_the_app_needs() -> None:
    reader = "app.documents.reading.process_main, app.documents.reading.pdf"
    code = f"import sys, {reader}; print({{'numpy', 'sqlite3', 'app.settings'}} & {{*sys.modules}})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
