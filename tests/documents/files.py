"""Files as people have them, and as nobody should: made here, so that the repository has none of anybody else's."""

import io
import re
import zipfile
from pathlib import Path

from docx import Document
from docx.opc.constants import CONTENT_TYPE, RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml.ns import nsdecls
from docx.oxml.parser import parse_xml
from docx.oxml.xmlchemy import BaseOxmlElement
from pypdf import PdfWriter
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    FloatObject,
    NameObject,
    NumberObject,
    TextStringObject,
)

SPACES = (
    f"{nsdecls('w', 'wp')} xmlns:mc='http://schemas.openxmlformats.org/markup-compatibility/2006'"
    " xmlns:m='http://schemas.openxmlformats.org/officeDocument/2006/math'"
)
FONT = DictionaryObject(
    {
        NameObject("/Type"): NameObject("/Font"),
        NameObject("/Subtype"): NameObject("/Type1"),
        NameObject("/BaseFont"): NameObject("/Helvetica"),
    }
)


NUMBERS = ArrayObject([NumberObject(65), *(NameObject(f"/g{number}") for number in range(60))])
UNNAMED = DictionaryObject(
    {**FONT, NameObject("/Encoding"): DictionaryObject({NameObject("/Differences"): NUMBERS})}
)
"""A font whose letters have numbers for names."""


def pdf(path: Path, *pages: str, password: str = "", font: DictionaryObject = FONT) -> Path:
    """A PDF with these lines on its pages."""
    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(300, 300)
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
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


def annotate(path: Path, entries: dict[str, str]) -> None:
    """Puts an annotation with these entries on the first page of a PDF."""
    writer = PdfWriter(clone_from=path)
    values = {
        NameObject(key): NameObject(value) if value.startswith("/") else TextStringObject(value)
        for key, value in entries.items()
    }
    corners = ArrayObject([FloatObject(place) for place in (20, 20, 80, 40)])
    annotation = DictionaryObject(
        {NameObject("/Type"): NameObject("/Annot"), NameObject("/Rect"): corners} | values
    )
    page = writer.pages[0]
    others = page.get("/Annots", ArrayObject())
    page[NameObject("/Annots")] = ArrayObject([*others, writer._add_object(annotation)])
    with path.open("wb") as file:
        writer.write(file)


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


def marked_docx(path: Path, body: str, footnotes: str = "", header: str = "", lists: str = "") -> Path:
    """A Word document with this markup in it; runs are written as [words]."""
    document = Document()
    if lists:
        document.part.numbering_part.element[:] = _elements(lists)
    for element in _elements(body):
        document.element.body.insert_element_before(element, "w:sectPr")
    if footnotes:
        blob = f"<w:footnotes {SPACES}>{_marked(footnotes)}</w:footnotes>".encode()
        kind = CONTENT_TYPE.WML_FOOTNOTES
        part = Part(PackURI("/word/footnotes.xml"), kind, blob, document.part.package)
        document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    if header:
        document.sections[0].header.paragraphs[0].text = header
    document.save(str(path))
    return path


def _elements(markup: str) -> list[BaseOxmlElement]:
    return list(parse_xml(f"<w:body {SPACES}>{_marked(markup)}</w:body>"))


def _marked(markup: str) -> str:
    return re.sub(r"\[([^]]*)\]", r'<w:r><w:t xml:space="preserve">\1</w:t></w:r>', markup)


def bomb(path: Path, size: int = 400 * 2**20) -> Path:
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
