"""Recognises the text in a picture of a page (OCR) with RapidOCR, if the extra `ocr` is installed.

RapidOCR's own models know Latin letters, Chinese and Japanese. Lines in other scripts get a low confidence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import groupby
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # importing numpy takes longer than reading a short PDF
    import numpy as np
    from numpy.typing import NDArray

LONGEST_SIDE = 1_700
"""Pixels of the longer side of a picture. On an A4 page this gives 145 pixels per inch."""
LEAST_CONFIDENCE = 0.85
"""Minimum confidence of a line that is kept. Readable lines have more than 0.95, lines in unknown scripts 0.6 to
0.8."""
COLUMN = 0.25
"""Minimum median width of a column's lines, as a share of the text's width. A table's cells are narrower."""
BORDERS = range(35, 66, 3)
"""Possible positions of the border between two columns, in percent of the text's width."""
MOST_CROSSING = 0.2
"""Largest share of lines, such as titles, that cross the border between two columns."""


@dataclass(frozen=True, slots=True)
class Recognised:
    """The text in a picture, the model's confidence from 0 to 1, and the number of lines that are left out."""

    text: str = ""
    confidence: float = 0.0
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text with the positions of its ends, and the model's confidence."""

    left: float
    right: float
    text: str
    confidence: float = 1.0

    def side(self, border: float) -> int:
        """Returns -1 for a line left of this border, 1 for a line right of it, and 0 if the line crosses it."""
        return -1 if self.right <= border else int(self.left >= border)


def can_recognise() -> bool:
    """Returns whether the extra `ocr` is installed."""
    return all(map(find_spec, ("rapidocr", "onnxruntime")))


def recognised(picture: "NDArray[np.uint8]") -> Recognised:
    """Recognises the text in a picture; returns an empty result if fewer than half of the lines can be read."""
    found = _model()(picture)
    boxes = () if found.txts is None else zip(found.boxes, found.txts, found.scores, strict=True)
    lines = [Line(min(box[:, 0]), max(box[:, 0]), text, score) for box, text, score in boxes]
    sure = [line for line in lines if line.confidence >= LEAST_CONFIDENCE]
    if not sure or len(sure) < len(lines) / 2:
        return Recognised()
    confidence = fmean(line.confidence for line in sure)
    return Recognised("\n".join(in_order(sure)), confidence, len(lines) - len(sure))


def in_order(lines: Sequence[Line]) -> Iterator[str]:
    """Yields the texts of lines, which are given from top to bottom. A left column comes before a right column."""
    begin = min(line.left for line in lines)
    width = max(line.right for line in lines) - begin
    borders = (begin + width * place / 100 for place in BORDERS)
    border = min(borders, key=lambda place: sum(line.side(place) == 0 for line in lines))
    sides = {
        side: [line.right - line.left for line in lines if line.side(border) == side] for side in (-1, 0, 1)
    }
    are_columns = len(sides[0]) <= MOST_CROSSING * len(lines) and all(
        sides[side] and median(sides[side]) >= COLUMN * width for side in (-1, 1)
    )
    if not are_columns:
        yield from (line.text for line in lines)
        return
    for _, run in groupby(lines, lambda line: line.side(border) == 0):
        yield from (line.text for line in sorted(run, key=lambda line: line.side(border)))


@cache
def _model() -> Any:
    from rapidocr import RapidOCR

    # More threads would take more of the address space, which is limited.
    return RapidOCR(
        params={"Global.log_level": "critical", "EngineConfig.onnxruntime.intra_op_num_threads": 1}
    )
