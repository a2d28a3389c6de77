"""Decides how a file is read: finds its format by its first bytes, and by its name if they do not show it."""

import re
import zipfile
from dataclasses import replace
from pathlib import Path, PurePath

from app.documents.reading.files import FORMATS, TextFileReader, text_of
from app.documents.reading.ocr import can_recognise
from app.documents.reading.process import MAX_MEMORY, MOST_SECONDS, ProcessReader, ReadRequest, seconds_for
from app.errors import DocumentUnreadable

FileReader = TextFileReader | ProcessReader

SUFFIXES = {
    "pdf": "pdf",
    "archive": "docx docm xlsx xlsm xlsb xls ods pptx ppsx pptm odt odp epub",
    "html": "html htm xhtml",
    "mail": "eml",
    "notebook": "ipynb",
    "table": "csv tsv",
}
FORMS_BY_SUFFIX = {f".{one}": form for form, suffixes in SUFFIXES.items() for one in suffixes.split()}
FORMS_BY_MAGIC = {
    b"%PDF-": "pdf",
    b"PK\x03\x04": "archive",
    b"{\\rtf": "rich_text",
    b"\xd0\xcf\x11\xe0": "sheet",
}
DECLARED = rb"(?:\xef\xbb\xbf)?\s*(?:(?><!--[^\0]*?-->|<[?!][^>]*>|\]>)\s*)*"
"""Comments and declarations at the beginning of XML. A part of a web page may begin with <article>, too."""
BEGINNINGS = {
    "html": re.compile(DECLARED.replace(b"?!", b"?") + rb"<(?:!doctype html|html)[\s>]", re.IGNORECASE),
    "opendocument": re.compile(DECLARED + rb"<office:document\s"),
    "xml": re.compile(
        DECLARED + rb"<(?:w:wordDocument|pkg:package|FictionBook|TEI|rss|feed|rdf:RDF|plist|(?:svg:)?svg)\s"
        rb"|(?=[^\0]*?(?:DocBook|docbook\.org|DITA|JATS))"
        + DECLARED
        + rb"<(?:article|book|chapter|section|part|set|refentry|topic|concept|task|reference)[\s>]"
    ),
    "mail": re.compile(rb"(?:[A-Za-z][\w-]*:[^\n]*\n|[ \t][^\n]*\n)*?MIME-Version:", re.IGNORECASE),
    "notebook": re.compile(rb"\s*\{\s*\"(?:cells|metadata|nbformat)\"[^\0]*?\"cell_type\"\s*:"),
}
"""Patterns of the beginnings of texts that are read by a reader of their own, whatever their names."""
BINARY = ("pdf", "archive")
SPREADSHEETS = frozenset((".xls", ".xlsx", ".xlsm", ".xlsb", ".ods"))
"""Names of spreadsheets, under which tables (CSV) are often stored."""
OFFICE = "an old or encrypted Office file"
PICTURE, SOUND, VIDEO, ARCHIVE = "a picture", "a sound file", "a video", "an archive"
PROGRAM, FONT, DATABASE, MODEL = "a program", "a font", "a database", "a model"
NUMBERS, PAGES = "a spreadsheet of Numbers", "a text of another word processor"
_BY_BEGINNING = {
    b"\x89PNG": PICTURE, b"\xff\xd8\xff": PICTURE, b"GIF87a": PICTURE, b"GIF89a": PICTURE, b"II*\0": PICTURE,
    b"MM\0*": PICTURE, b"BM": PICTURE, b"ID3": SOUND, b"\xff\xfb": SOUND, b"OggS": SOUND, b"fLaC": SOUND,
    b"\x1aE\xdf\xa3": VIDEO, b"\x1f\x8b": ARCHIVE, b"BZh": ARCHIVE, b"7z\xbc\xaf": ARCHIVE, b"Rar!": ARCHIVE,
    b"\xfd7zXZ": ARCHIVE, b"\x28\xb5\x2f\xfd": ARCHIVE, b"\x7fELF": PROGRAM, b"\0asm": PROGRAM, b"MZ": PROGRAM,
    b"SQLite f": DATABASE, b"\xd0\xcf\x11\xe0": OFFICE, b"AT&TFORM": "a DjVu document", b"wOFF": FONT,
    b"wOF2": FONT, b"GGUF": MODEL,
}  # fmt: skip
_BY_SUFFIX = {
    PICTURE: "png jpg jpeg gif webp bmp tif tiff ico heic avif psd raw",
    SOUND: "mp3 wav ogg flac m4a aac opus wma",
    VIDEO: "mp4 mkv mov avi webm wmv m4v",
    ARCHIVE: "zip gz bz2 xz 7z rar tar tgz zst jar",
    PROGRAM: "exe dll so dylib bin class pyc o a wasm msi apk",
    FONT: "ttf otf woff woff2",
    DATABASE: "sqlite sqlite3 db mdb accdb",
    OFFICE: "doc ppt",
    NUMBERS: "numbers",
    PAGES: "pages wpd",
    "an e-book": "mobi azw azw3",
    MODEL: "gguf safetensors pt onnx",
}
_KINDS = {f".{suffix}": kind for kind, suffixes in _BY_SUFFIX.items() for suffix in suffixes.split()}
_BRANDS = {
    b"WEBP": PICTURE, b"heic": PICTURE, b"heix": PICTURE, b"mif1": PICTURE, b"avif": PICTURE, b"WAVE": SOUND,
    b"M4A ": SOUND,
}  # fmt: skip
"""The kinds of files in the containers RIFF and MP4, by the bytes at BRAND; other such files count as videos."""
FTYP, BRAND = slice(4, 8), slice(8, 12)
SAMPLE = 4096
"""Number of bytes at the beginning of a file by which its format is recognised."""
MOST_BEFORE = 1024
"""Maximum number of bytes before the mark of a PDF."""
KEPT_AS_ARCHIVES = frozenset((PROGRAM, PAGES, NUMBERS, MODEL))
"""Kinds of files that are ZIP archives, too."""
CONTROL = re.compile(r"[\0-\x06\x0e-\x1a]")


def open_reader(path: Path, name: str) -> FileReader:
    """Returns the reader of a file, which is called `name` in messages. Raises DocumentUnreadable."""
    try:
        with path.open("rb") as file:
            sample = file.read(SAMPLE)
    except OSError as error:
        raise DocumentUnreadable(f"{name} cannot be read ({error.strerror}): add it again.") from error
    if not sample:
        raise DocumentUnreadable(f"{name} is empty: there is nothing to read.")
    form = _form_by_content(sample, name) or _form_by_name(path, sample, name)
    if not form:
        return TextFileReader(path, name)
    request = ReadRequest(str(path.absolute()), name, form, seconds=seconds_for(path.stat().st_size))
    if form == "pdf" and can_recognise():
        request = replace(request, memory=2 * MAX_MEMORY, seconds=MOST_SECONDS)
    return ProcessReader(request)


def _form_by_content(sample: bytes, name: str) -> str:
    """Returns the format that a file's first bytes show; "" if they show none.

    Raises DocumentUnreadable for a format that cannot be read."""
    form = next((form for mark, form in FORMS_BY_MAGIC.items() if sample.startswith(mark)), "")
    form = form or next((form for form, pattern in BEGINNINGS.items() if pattern.match(sample)), "")
    suffix, kind = PurePath(name).suffix.lower(), _kind_by_beginning(sample[:64])
    if kind and not (kind == OFFICE and suffix == ".xls"):
        raise _unsupported(name, kind)
    if form == "archive" and _KINDS.get(suffix) in KEPT_AS_ARCHIVES:
        raise _unsupported(name, _KINDS[suffix])
    return form


def _form_by_name(path: Path, sample: bytes, name: str) -> str:
    """Returns the format that a file's name shows, unless its first bytes are text; "" for a plain text.

    Raises DocumentUnreadable if the format cannot be read or the file has another one."""
    suffix = PurePath(name).suffix.lower()
    form, kind = FORMS_BY_SUFFIX.get(suffix, ""), _KINDS.get(suffix, "")
    if not kind and form not in BINARY and (form != "notebook" or b"{" in sample):
        return form
    if b"%PDF-" in sample[:MOST_BEFORE] if form == "pdf" else form == "archive" and zipfile.is_zipfile(path):
        return form
    if _is_text(sample):
        return "table" if suffix in SPREADSHEETS else ""
    if kind:
        raise _unsupported(name, kind)
    raise DocumentUnreadable(
        f"{name} does not have the content of a {suffix[1:].upper()} file: it is damaged, or a file of another "
        "kind. Save it again, and add that file."
    )


def _is_text(sample: bytes) -> bool:
    """Returns whether the first bytes of a file decode to a text without control characters."""
    text = text_of(sample)
    return text is not None and not CONTROL.search(text)


def _unsupported(name: str, kind: str) -> DocumentUnreadable:
    how = "without a password " if kind == OFFICE else ""
    return DocumentUnreadable(
        f"{name} is {kind}, which cannot be read. Save it {how}in another format, and add that file. "
        f"Foresight can read {FORMATS}."
    )


def _kind_by_beginning(beginning: bytes) -> str:
    mark = next((mark for mark in _BY_BEGINNING if beginning.startswith(mark)), b"")
    # A text may begin with "ID3 is a format", too, but no text has the bytes that follow in a sound file.
    has_controls = CONTROL.search(beginning.decode("latin-1")) is not None
    if mark and (not mark.isascii() or mark.startswith(b"{") or has_controls):
        return _BY_BEGINNING[mark]
    is_container = has_controls and (beginning[FTYP] == b"ftyp" or beginning.startswith(b"RIFF"))
    return _BRANDS.get(beginning[BRAND], VIDEO) if is_container else ""
