"""Files as people have them, and as nobody should: made here, so that the repository has none of anybody else's."""

import io
import zipfile
from pathlib import Path

from docx import Document
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

FONT = DictionaryObject(
    {
        NameObject("/Type"): NameObject("/Font"),
        NameObject("/Subtype"): NameObject("/Type1"),
        NameObject("/BaseFont"): NameObject("/Helvetica"),
    }
)


def pdf(path: Path, *pages: str, password: str = "") -> Path:
    """A PDF with these lines on its pages."""
    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(300, 300)
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(FONT)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        content = DecodedStreamObject()
        lines = "".join(f"({line}) Tj 0 -14 Td " for line in text.splitlines())
        content.set_data(f"BT /F1 12 Tf 20 250 Td {lines}ET".encode("latin-1"))
        page[NameObject("/Contents")] = writer._add_object(content)
    if password:
        writer.encrypt(password, algorithm="AES-256")
    with path.open("wb") as file:
        writer.write(file)
    return path


def docx(path: Path) -> Path:
    """A Word document with a heading, a list, a table and words behind it."""
    document = Document()
    document.add_heading("Eggs", 1)
    document.add_paragraph("Boil them.")
    document.add_paragraph("salt", style="List Bullet")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "time", "6 minutes"
    document.add_paragraph("Then cold water.")
    document.save(str(path))
    return path


def bomb(path: Path, size: int = 2**30) -> Path:
    """A small Word document that unpacks to a large one."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("word/document.xml", "w", force_zip64=True) as member,
    ):
        for _ in range(size // 2**20):
            member.write(bytes(2**20))
    return path


def archive(path: Path) -> Path:
    """A zip file with a text in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr("a.txt", "words")
    path.write_bytes(buffer.getvalue())
    return path
