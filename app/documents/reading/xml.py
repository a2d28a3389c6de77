"""Reads the words of XML documents: texts of Word, books, feeds, drawings (SVG) and property lists."""

import plistlib
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from xml.parsers.expat import ExpatError

from lxml.etree import XMLParser, XMLSyntaxError, fromstring
from lxml.etree import _Element as Element

from app.documents.reading.files import TextFileReader
from app.documents.reading.html import markdown_of
from app.documents.reading.opendocument_lists import kind_of
from app.documents.reading.process import ReadMessage, ReadNote, ReadTitle, TextPiece

PARAGRAPHS = frozenset(("p", "para", "simpara", "title", "text"))
"""Elements that are paragraphs even between words, and whose elements are parts of the paragraph."""
AS_WRITTEN = frozenset(("programlisting", "screen", "literallayout", "synopsis"))
"""Paragraphs whose blanks and line ends are kept."""
UNSEEN = frozenset(
    ("style", "script", "binary", "binData", "binaryData", "instrText", "delText", "DocumentProperties")
)
SIGNS = {"tab": "\t", "br": "\n"}
FEEDS, WORD = ("rss", "feed", "RDF"), ("wordDocument", "package")
NAMED = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos);)\w+;")
"""The name of a character, which books may use without defining it."""
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")


def parsed(data: bytes) -> Element:
    """Parses XML, and keeps blanks between elements. Raises XMLSyntaxError."""
    return fromstring(data, XMLParser(resolve_entities="internal", remove_comments=True, remove_pis=True))


def read_xml(path: Path, name: str) -> Iterator[ReadMessage]:
    """Yields the title and paragraphs of a document, or the unchanged text of a file that is not valid XML."""
    data = NAMED.sub(_numbered, path.read_bytes())
    try:
        root = parsed(data)
        lines = list(_properties(plistlib.loads(data))) if kind_of(root) == "plist" else []
    except (XMLSyntaxError, ExpatError, ValueError):
        yield from TextFileReader(path, name).messages()
        return
    title = next(root.iter("{*}title", "{*}Title"), None)
    yield ReadTitle(" ".join("" if title is None else "".join(title.itertext()).split()))
    text = "\n".join(lines) or "".join(_words(root, kind_of(root) in FEEDS))
    yield TextPiece(re.sub(r" *\n\n[ \n]*", "\n\n", text).lstrip("\n"))
    if kind_of(root) in WORD:
        yield ReadNote(
            "Its headings and automatic numbers were left out: save it as .docx, and add that file."
        )


def _numbered(name: re.Match[bytes]) -> bytes:
    character = unescape(name[0].decode("latin-1"))
    return b"&#%d;" % ord(character) if len(character) == 1 else name[0]


def _words(element: Element, is_feed: bool, is_inline: bool = False) -> Iterator[str]:
    """Yields the words of an element, between empty lines unless it is a part of a paragraph."""
    kind = kind_of(element)
    if kind in UNSEEN:
        return
    texts = [element.text or element.get("alt", ""), *(child.tail or "" for child in element)]
    if kind not in AS_WRITTEN:
        texts = [re.sub(r"\s+", " ", one) for one in texts]
    if is_feed and TAG.search(texts[0]):
        texts[0] = markdown_of(texts[0])
    is_paragraph = kind in PARAGRAPHS or kind in AS_WRITTEN
    border = "" if is_inline and not is_paragraph else "\n\n"
    yield border + SIGNS.get(kind, "") + texts[0]
    for child, after in zip(element, texts[1:], strict=True):
        yield from _words(child, is_feed, is_inline or is_paragraph or any(map(str.strip, texts)))
        yield after
    yield border


def _properties(value: object, name: str = "") -> Iterator[str]:
    """Yields a line for each value in a property list, after the name of the value."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _properties(one, f"{key}: ")
    elif isinstance(value, list):
        for one in value:
            yield from _properties(one, name)
    elif not isinstance(value, bytes):
        yield f"{name}{value}"
