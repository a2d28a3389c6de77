"""Reads Word documents as Markdown, element by element, because python-docx leaves out the words of tracked
changes, content controls and text boxes.

Text boxes, diagrams, footnotes and comments follow the paragraph to which they belong. Elements that are unknown
are searched for words, so that no words are lost."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from docx import Document
from docx.document import Document as Opened
from docx.enum.style import WD_STYLE_TYPE
from docx.opc.constants import RELATIONSHIP_TYPE as RELATION
from docx.opc.part import Part
from docx.oxml.ns import nsmap
from docx.oxml.parser import parse_xml
from docx.oxml.xmlchemy import BaseOxmlElement as Element
from docx.styles.style import BaseStyle

from app.documents.reading.archive import DIAGRAM, diagram_lines, office_package
from app.documents.reading.lists import BULLET
from app.documents.reading.numbering import MAX_BASED, WORD, Numbering, value
from app.documents.reading.process import ReadMessage, ReadNote, ReadProgress, ReadTitle, TextPiece
from app.values.display_text import counted

STEP = 100
"""Blocks of a document between two reports of progress."""
NOTE_PARTS = (
    (RELATION.FOOTNOTES, "footnote"), (RELATION.ENDNOTES, "endnote"), (RELATION.COMMENTS, "comment")
)  # fmt: skip
MARGINS = (RELATION.HEADER, RELATION.FOOTER)
HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
TITLE = "Title"
OUTLINE = frozenset("012345678")


def _named(names: str, prefix: str = "w") -> frozenset[str]:
    return frozenset(f"{{{nsmap[prefix]}}}{name}" for name in names.split())


MARKUP = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
MATHS = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"

TEXTS = frozenset((f"{WORD}t", f"{MATHS}t"))
SIGNS = {f"{WORD}tab": "\t", f"{WORD}br": "\n", f"{WORD}cr": "\n", f"{WORD}noBreakHyphen": "-"}
PICTURE = f"{{{nsmap['wp']}}}docPr"
BOX = f"{WORD}txbxContent"
FIELD, INSTRUCTION = f"{WORD}fldChar", f"{WORD}instrText"
STORED = " SET"
SILENT = re.compile(r"\s*(?:XE|TC|TA|RD|ASK|PRIVATE|PAGE|SECTIONPAGES|FORM\w+|SET)\b|\s*$")
"""The instructions of fields whose missing results lose no words: index entries, page numbers, form fields."""
NOTES = _named("footnoteReference endnoteReference commentReference")
COMMENT = f"{WORD}commentReference"
PROPERTIES = f"{WORD}pPr"
PARAGRAPH, TABLE, ROW, CELL = f"{WORD}p", f"{WORD}tbl", f"{WORD}tr", f"{WORD}tc"
BLOCKS = frozenset((PARAGRAPH, TABLE))
UNSEEN = _named("del moveFrom pPr rPr tblPr tblGrid trPr tcPr sdtPr sdtEndPr rt sectPr") | {
    f"{MARKUP}Fallback"
}
"""Elements that are skipped: deleted or moved words, layout, alternatives, and pronunciations (`rt`)."""


@dataclass(slots=True)
class _Paragraph:
    words: list[str] = field(default_factory=list)
    boxes: list[Element] = field(default_factory=list)
    diagrams: list[Element] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Markup:
    """Turns parts of a document into Markdown. `styles` has the names of styles by id.

    `notes` has the notes that are not in the text yet. Each note is used once, because notes that refer to each
    other would make an endless text."""

    styles: Mapping[str, str]
    notes: dict[tuple[str, str], Element]
    numbering: Numbering
    part: Part
    capitals: list[str] = field(default_factory=list)
    """Drop caps, which are paragraphs of their own before the paragraph that they begin."""

    def markdown(self, block: Element) -> str:
        """Returns a paragraph, a table, or all paragraphs and tables within another element, as Markdown."""
        return "".join(
            self._table(one) if one.tag == TABLE else self._paragraph(one) for one in _within(block, BLOCKS)
        )

    def _paragraph(self, element: Element) -> str:
        found = _contents(element)
        text = "".join(found.words).strip()
        is_plain = element.find(PROPERTIES) is None
        frame = None if is_plain else _child(element, "pPr", "framePr")
        if frame is not None and frame.get(f"{WORD}dropCap", "none") != "none":
            self.capitals.append(text)
            return ""
        while self.capitals:
            text = self.capitals.pop() + text
        styled = f"{text}\n\n" if is_plain else self._as_styled(element, text)
        boxes = "".join(map(self._children, found.boxes))
        boxes += "".join(f"{line}\n\n" for one in found.diagrams for line in diagram_lines(one, self.part))
        notes = "".join(
            ("Comment: " if note[0] == COMMENT else "") + self._children(self.notes.pop(note))
            for note in found.notes
            if note in self.notes
        )
        return (styled if text else "") + boxes + notes

    def _children(self, element: Element) -> str:
        return "".join(map(self.markdown, element))

    def _as_styled(self, element: Element, text: str) -> str:
        label = self.numbering.label(element)
        style = self.styles.get(value(element, "pPr/pStyle"), "")
        heading = HEADING.match(_outlined(element) or style)
        numbered = f"{label} {text}" if label else text
        if heading or style == TITLE:
            level = int(heading[1]) if heading else 1
            return f"{'#' * min(level or 1, 6)} {_on_a_line(numbered.removeprefix(f'{BULLET} '))}\n\n"
        return f"{numbered}\n" if label else f"- {text}\n" if style.startswith("List") else f"{text}\n\n"

    def _table(self, table: Element) -> str:
        rows = (row for row in _within_children(table, {ROW}) if _child(row, "trPr", "del") is None)
        lines = (" | ".join(map(self._cell, _within_children(row, {CELL}))) for row in rows)
        return "".join(f"| {line} |\n" for line in lines) + "\n"

    def _cell(self, cell: Element) -> str:
        """Returns the text of a cell on one line; "" for a cell that only continues the cell above."""
        merged = _child(cell, "tcPr", "vMerge")
        if merged is not None and merged.get(f"{WORD}val") != "restart":
            return ""
        return _on_a_line(self._children(cell))


def _contents(element: Element, before: _Paragraph | None = None) -> _Paragraph:
    """Collects the contents of a paragraph or of an element in it, after the contents `before`."""
    found = before or _Paragraph()
    for one in element:
        if one.tag in TEXTS:
            found.words.append(one.text or "")
        elif one.tag in SIGNS:
            found.words.append(SIGNS[one.tag])
        elif one.tag == BOX:
            found.boxes.append(one)
        elif one.tag in NOTES:
            found.notes.append((one.tag, one.get(f"{WORD}id", "")))
        elif one.tag == PICTURE and (words := one.get("descr") or one.get("title")):
            found.words.append(f" [Picture: {_on_a_line(words)}] ")
        elif one.tag == DIAGRAM:
            found.diagrams.append(one)
        elif one.tag not in UNSEEN:
            _contents(one, found)
    return found


def _within(element: Element, wanted: frozenset[str] | set[str]) -> Iterator[Element]:
    """Yields this element if its tag is among `wanted`, else the outermost elements in it with such a tag."""
    if element.tag in wanted:
        yield element
    elif element.tag not in UNSEEN:
        yield from _within_children(element, wanted)


def _within_children(element: Element, wanted: frozenset[str] | set[str]) -> Iterator[Element]:
    for one in element:
        yield from _within(one, wanted)


def _child(element: Element, *path: str) -> Element | None:
    found: Element | None = element.find("/".join(f"{WORD}{name}" for name in path))
    return found


def _on_a_line(text: str) -> str:
    return " ".join(text.split())


def read_docx(path: Path, name: str) -> Iterator[ReadMessage]:  # noqa: ARG001 - readers have the same arguments
    """Yields the text of a Word document, with its title, progress and notes."""
    package, missing = office_package(path)
    document = Document(package)
    yield ReadTitle(document.core_properties.title or "")
    body = document.element.body
    for style in document.styles.element.style_lst:
        style.type = style.type or WD_STYLE_TYPE.PARAGRAPH  # python-docx requires a type
    styles = {style.style_id: _style_name(style) for style in document.styles}
    lists = next(_parts(document, RELATION.NUMBERING), None)
    elements = {style.style_id: style.element for style in document.styles}
    numbering = Numbering(parse_xml(lists.blob) if lists else None, elements)
    markup = Markup(styles, dict(_notes(document)), numbering, document.part)
    blocks, total, done = map(markup.markdown, body), len(body), 0
    while some := list(islice(blocks, STEP)):
        done += len(some)
        yield TextPiece("".join(some))
        yield ReadProgress(done, total)
    yield from map(ReadNote, _left_out(document, missing))


def _left_out(document: Opened, missing: int) -> Iterator[str]:
    """Yields a sentence about each kind of content that is not in the text."""
    margins = [_contents(parse_xml(part.blob)) for relation in MARGINS for part in _parts(document, relation)]
    # No note for margins without letters, such as page numbers.
    if any(re.search(r"[^\W\d_]", word) for margin in margins for word in margin.words):
        yield "The headers and footers of the pages were left out."
    if charts := sum(1 for _ in document.element.body.iter("{*}chart")):
        yield f"Left out: {counted(charts, 'chart')}."
    if fields := _without_result(document.element.body):
        yield (
            f"Left out: {counted(fields, 'field')} without a stored result, such as a table of contents. Update "
            "the fields in Word, save the file, and add it again."
        )
    if missing:
        yield f"Missing in the file: {counted(missing, 'part')}, such as pictures."


def _without_result(body: Element) -> int:
    """Counts the fields whose text is not in the file, because Word computes it when it shows the field."""
    opened, found = list[str](), 0
    for one in body.iter(FIELD, INSTRUCTION):
        kind = one.get(f"{WORD}fldCharType")
        if kind == "begin":
            opened.append("")
        elif opened and kind == "separate":
            opened[-1] = STORED
        elif opened and kind == "end":
            found += SILENT.match(opened.pop()) is None
        elif opened and opened[-1] != STORED:
            opened[-1] += one.text or ""
    return found


def _notes(document: Opened) -> Iterator[tuple[tuple[str, str], Element]]:
    """Yields the footnotes, endnotes and comments of a document, each with the key by which references name it."""
    for relation, kind in NOTE_PARTS:
        for part in _parts(document, relation):
            for note in parse_xml(part.blob).findall(f"{WORD}{kind}"):
                yield (f"{WORD}{kind}Reference", note.get(f"{WORD}id", "")), note


def _parts(document: Opened, relation: str) -> Iterator[Part]:
    relations = document.part.rels.values()
    found = (one.target_part for one in relations if one.reltype == relation and not one.is_external)
    return iter(dict.fromkeys(found))


def _style_name(style: BaseStyle) -> str:
    """Returns a style's name, or "heading N" if the style, or a style on which it is based, is such a heading."""
    based: BaseStyle | None = style
    for _ in range(MAX_BASED):
        if based is None or HEADING.match(name := _outlined(based.element) or based.name or ""):
            break
        based = getattr(based, "base_style", None)  # styles of numberings have none
    return (name if based else style.name) or ""


def _outlined(element: Element) -> str:
    """Returns "heading 1" to "heading 9" for the outline level of a paragraph or style; "" without a level."""
    level = value(element, "pPr/outlineLvl")
    return f"heading {int(level) + 1}" if level in OUTLINE else ""
