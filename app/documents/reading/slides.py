"""Reads presentations (PPTX) as Markdown: a section for each slide, with its notes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pptx import Presentation

from app.documents.reading.archive import diagram_lines, office_package
from app.documents.reading.process import ReadMessage, ReadNote, ReadProgress, ReadTitle, TextPiece
from app.errors import DocumentUnreadable
from app.values.display_text import counted


def read_slides(path: Path, name: str) -> Iterator[ReadMessage]:
    """Yields the text of each slide. Raises DocumentUnreadable if there is none."""
    package, missing = office_package(path)
    deck = Presentation(package)
    yield ReadTitle(deck.core_properties.title or "")
    empty, total = 0, len(deck.slides)
    for number, slide in enumerate(deck.slides, start=1):
        title = slide.shapes.title
        head = " ".join(title.text_frame.text.split()) if title is not None else ""
        lines = [line for shape in slide.shapes if shape != title for line in _lines(shape)]
        if (
            slide.has_notes_slide
            and (frame := slide.notes_slide.notes_text_frame) is not None
            and frame.text.strip()
        ):
            lines.append(f"Notes: {frame.text.strip()}")
        empty += not (head or lines)
        if head or lines:
            yield TextPiece(f"# Slide {number}{': ' * bool(head)}{head}\n\n" + "\n".join((*lines, "\n")))
        yield ReadProgress(number, total)
    if empty == total:
        raise DocumentUnreadable(
            f"{name} has no text in its {counted(total, 'slide')}, perhaps only pictures."
        )
    if empty:
        yield ReadNote(
            f"Left out: {counted(empty, 'slide')} of {total:,} without text (perhaps only pictures)."
        )
    if missing:
        yield ReadNote(f"Missing in the file: {counted(missing, 'part')}, such as pictures.")


def _lines(shape: Any) -> Iterator[str]:
    """Yields the lines of a shape: of inner shapes, a table, a chart or a text, else of a picture or a diagram."""
    if hasattr(shape, "shapes"):
        for one in shape.shapes:
            yield from _lines(one)
    elif getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield f"| {' | '.join(' '.join(cell.text.split()) for cell in row.cells)} |"
    elif getattr(shape, "has_chart", False):
        yield from map(_series_line, shape.chart.element.iter("{*}ser"))
    elif shape.has_text_frame:
        yield from filter(None, (one.text.replace("\v", "\n").strip() for one in shape.text_frame.paragraphs))
    else:
        words = shape._element.xpath("string(.//p:cNvPr/@descr)")
        yield from [f"[Picture: {' '.join(words.split())}]"] if words else []
        yield from diagram_lines(shape._element, shape.part)


def _series_line(series: Any) -> str:
    """Returns the name of a series in a chart of any kind, and its values with their labels."""
    name, labels, values = (
        {
            place.get("idx"): place.findtext("{*}v") or ""
            for kind in kinds
            for place in series.iterfind(f"{{*}}{kind}//{{*}}pt")
        }
        for kinds in (("tx",), ("cat", "xVal"), ("val", "yVal"))
    )
    points = "; ".join(f"{labels.get(place, place)}: {value}" for place, value in values.items())
    return f"{' '.join(name.values())}: {points}"
