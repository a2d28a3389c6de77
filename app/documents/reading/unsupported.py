"""Files that cannot be read: what they are, by their first bytes, and by their suffix."""

import re
from pathlib import PurePath

from app.errors import DocumentUnreadable

FORMATS = "text, Markdown, source code, PDF, DOCX and HTML"
OFFICE = "an old or encrypted Office file"
PICTURE, SOUND, VIDEO, ARCHIVE = "a picture", "a sound file", "a video", "an archive"
PROGRAM, FONT, DATABASE = "a program", "a font", "a database"
SPREADSHEET, SLIDES, BOOK = "a spreadsheet", "a presentation", "an e-book"
_BY_BEGINNING = {
    b"\x89PNG": PICTURE, b"\xff\xd8\xff": PICTURE, b"GIF87a": PICTURE, b"GIF89a": PICTURE, b"II*\0": PICTURE,
    b"MM\0*": PICTURE, b"RIFF": "a sound file, a video or a picture", b"ID3": SOUND, b"OggS": SOUND,
    b"fLaC": SOUND, b"\x1aE\xdf\xa3": VIDEO, b"\x1f\x8b": ARCHIVE, b"BZh": ARCHIVE, b"7z\xbc\xaf": ARCHIVE,
    b"Rar!": ARCHIVE, b"\xfd7zXZ": ARCHIVE, b"\x28\xb5\x2f\xfd": ARCHIVE, b"\x7fELF": PROGRAM,
    b"\0asm": PROGRAM, b"SQLite f": DATABASE, b"\xd0\xcf\x11\xe0": OFFICE, b"{\\rtf": "a rich text file",
    b"wOFF": FONT, b"wOF2": FONT, b"GGUF": "a model",
}  # fmt: skip
_BY_SUFFIX = {
    PICTURE: "png jpg jpeg gif webp bmp tif tiff ico heic avif psd raw",
    SOUND: "mp3 wav ogg flac m4a aac opus wma",
    VIDEO: "mp4 mkv mov avi webm wmv m4v",
    ARCHIVE: "zip gz bz2 xz 7z rar tar tgz zst jar",
    PROGRAM: "exe dll so dylib bin class pyc o a wasm msi apk",
    FONT: "ttf otf woff woff2",
    DATABASE: "sqlite sqlite3 db mdb accdb",
    OFFICE: "doc xls ppt",
    SPREADSHEET: "xlsx xlsm ods",
    SLIDES: "pptx odp",
    "a text of another word processor": "odt pages wpd",
    BOOK: "epub mobi azw azw3",
    "a model": "gguf safetensors pt onnx",
}
_KINDS = {f".{suffix}": kind for kind, suffixes in _BY_SUFFIX.items() for suffix in suffixes.split()}
_FTYP = slice(4, 8)
"""Where the files of the MP4 family say what they are."""
_CONTROL = re.compile(rb"[\0-\x06\x0e-\x1a]")


def require_supported(beginning: bytes, name: str) -> None:
    """Raise DocumentUnreadable for a file that begins like this, or has this name, and cannot be read."""
    kind = _kind_by_beginning(beginning) or _KINDS.get(PurePath(name).suffix.lower(), "")
    if kind:
        raise DocumentUnreadable(
            f"{name} is {kind}, which cannot be read. Save it as one of these without a password, and add that: "
            f"{FORMATS}."
        )


def _kind_by_beginning(beginning: bytes) -> str:
    mark = next((mark for mark in _BY_BEGINNING if beginning.startswith(mark)), b"")
    # A text may begin with "ID3 is a format"; the file itself has bytes behind its mark that no text has.
    if mark and (not mark.isascii() or mark.startswith(b"{") or _CONTROL.search(beginning)):
        return _BY_BEGINNING[mark]
    return VIDEO if beginning[_FTYP] == b"ftyp" and _CONTROL.search(beginning) else ""
