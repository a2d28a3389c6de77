"""Reads e-books (EPUB) as Markdown, chapter by chapter in the order of the book."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote

from docx.oxml.parser import parse_xml

from app.documents.reading.files import encoding_of
from app.documents.reading.html import markdown_of
from app.documents.reading.process import ReadMessage, ReadNote, ReadProgress, ReadTitle, TextPiece
from app.values.display_text import counted

CONTAINER = "META-INF/container.xml"


def read_book(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    """Yields the text of a book, with its title and a note about missing chapters."""
    with zipfile.ZipFile(path) as archive:
        root = parse_xml(archive.read(CONTAINER)).find(".//{*}rootfile").get("full-path")
        package, names = parse_xml(archive.read(root)), set(archive.namelist())
        yield ReadTitle(package.findtext(".//{*}metadata/{*}title") or "")
        files = {one.get("id"): one.get("href", "") for one in package.iterfind(".//{*}manifest/{*}item")}
        spine = [files.get(one.get("idref"), "") for one in package.iterfind(".//{*}itemref")]
        chapters = [normpath(join(dirname(root), unquote(one))) for one in spine]
        for done, chapter in enumerate(chapters, start=1):
            if chapter in names:
                data = archive.read(chapter)
                yield TextPiece(markdown_of(data.decode(encoding_of(data).name, "replace")) + "\n\n")
            yield ReadProgress(done, len(chapters))
        if missing := sum(chapter not in names for chapter in chapters):
            yield ReadNote(f"Missing in the file: {counted(missing, 'chapter')} of {len(chapters):,}.")
