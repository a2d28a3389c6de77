"""Reads Office files, OpenDocument files and e-books. They are ZIP archives, whose content shows the format."""

import re
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import IO

from docx.opc.oxml import serialize_part_xml
from docx.opc.part import Part
from docx.oxml.ns import nsmap
from docx.oxml.parser import parse_xml
from docx.oxml.xmlchemy import BaseOxmlElement as Element

from app.documents.reading.process import ReadMessage, reader_of
from app.errors import DocumentUnreadable

LARGEST = 300 * 2**20
"""Maximum number of bytes that a file may unpack to, because a few kilobytes can unpack to many gigabytes."""
TYPES = "[Content_Types].xml"
FORMATS = (
    (TYPES, rb"(?:wordprocessingml|ms-word)[.\w]*\.main", "docx"),
    (TYPES, rb"(?:presentationml|ms-powerpoint)[.\w]*\.main", "slides"),
    (TYPES, rb"(?:spreadsheetml|ms-excel)[.\w]*\.main", "sheet"),
    ("mimetype", rb"opendocument\.(?:text|presentation)", "opendocument"),
    ("mimetype", rb"opendocument\.spreadsheet", "sheet"),
    ("META-INF/container.xml", rb"", "book"),
)
"""For each format, the part that identifies it, a pattern that this part contains, and the name of the format for
`reader_of`."""
LOCKS = (
    ("META-INF/manifest.xml", b"encryption-data"),
    ("META-INF/rights.xml", b""),
    ("META-INF/sinf.xml", b""),
)
"""Parts of encrypted OpenDocument files and of protected books, each with bytes that the part contains."""
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
RELATION, PARAGRAPH = f"{{{nsmap['r']}}}", f"{{{nsmap['a']}}}p"
MAIN_TYPES = {
    b"word": b"wordprocessingml.document",
    b"(?:powerpoint|presentation)": b"presentationml.presentation",
}
"""For templates, slide shows and files with macros, the types of their main parts that libraries know."""
STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")


def read_archive(path: Path, name: str) -> Iterator[ReadMessage]:
    """Recognises the format of an archive, and yields its reader's messages. Raises DocumentUnreadable."""
    with zipfile.ZipFile(path) as archive:
        _require_readable(archive, name)
        names = archive.namelist()
        found = (one for part, says, one in FORMATS if part in names and re.search(says, archive.read(part)))
        file_format = next(found, "")
    if not file_format:
        raise DocumentUnreadable(f"{name} is an archive, not a document: add the files in it instead.")
    yield from reader_of(file_format)(path, name)


def office_package(path: Path) -> tuple[str | IO[bytes], int]:
    """Returns an Office file that libraries can open, and the number of its references to missing parts.

    If there are such references, or if the format is strict or special, returns a copy in memory, without these
    references, with the namespaces and the type that libraries know. Else returns the file's path."""
    written, missing = BytesIO(), 0
    with zipfile.ZipFile(path) as archive:
        changed, missing = _without_missing_parts(archive)
        types = given = archive.read(TYPES)
        for kind, usual in MAIN_TYPES.items():
            types = re.sub(
                rb"\.[\w.-]*%b[\w.]*\.main" % kind, rb".openxmlformats-officedocument.%b.main" % usual, types
            )
        if types != given:
            changed[TYPES] = types
        is_strict = STRICT.search(archive.read("_rels/.rels"))
        if not (changed or is_strict):
            return str(path), 0
        with zipfile.ZipFile(written, "w") as copy:
            for one in archive.namelist():
                data = changed.get(one) or archive.read(one)
                if is_strict and one.endswith((".xml", ".rels")):
                    data = STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", data)
                copy.writestr(one, data)
    return written, missing


def diagram_lines(drawing: Element, part: Part) -> Iterator[str]:
    """Yields the texts of the SmartArt diagrams in a drawing of this part."""
    for diagram in drawing.iter(DIAGRAM):
        if (place := diagram.get(f"{RELATION}dm")) not in part.rels:  # the part is missing
            continue
        data = parse_xml(part.rels[place].target_part.blob)
        yield from filter(None, ("".join(one.itertext()).strip() for one in data.iter(PARAGRAPH)))


def _require_readable(archive: zipfile.ZipFile, name: str) -> None:
    size = sum(info.file_size for info in archive.infolist())
    if size > LARGEST:
        raise DocumentUnreadable(
            f"{name} unpacks to {size / 2**20:,.0f} MB, but at most {LARGEST / 2**20:,.0f} MB can be read: "
            "save only its text, and add that file."
        )
    if any(says in archive.read(part) for part, says in LOCKS if part in archive.namelist()):
        raise DocumentUnreadable(f"{name} is encrypted: save it without protection, and add that file.")


def _without_missing_parts(archive: zipfile.ZipFile) -> tuple[dict[str, bytes], int]:
    """Removes references to missing parts. Returns the changed .rels files by name, and the number removed."""
    names, changed, missing = set(archive.namelist()), dict[str, bytes](), 0
    for one in (one for one in names if one.endswith(".rels")):
        relations, folder = parse_xml(archive.read(one)), PurePosixPath("/", one).parent.parent
        for relation in list(relations):
            part = normpath(folder / relation.get("Target", "")).lstrip("/")
            if relation.get("TargetMode") != "External" and part not in names:
                relations.remove(relation)
                missing += 1
                changed[one] = serialize_part_xml(relations)
    return changed, missing
