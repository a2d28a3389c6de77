"""The text in pictures of pages."""

from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from app.documents.reading.ocr import Line, can_recognise, in_order
from app.errors import DocumentUnreadable
from tests.documents.reading.test_reading import read_apart

LEFT = ["The rent is 740 euros a month", "and it is due on the third day", "of every month by transfer."]
RIGHT = ["The notice period is three", "months to the end of a month", "and it must be in writing."]
BELOW = "Both parties have received a copy of this contract and of the rules of the house."


def scan(path: Path, *pages: list[tuple[int, int, str]]) -> Path:
    """A PDF of pictures with these lines at their positions."""
    drawn = [Image.new("RGB", (1240, 1754), "white") for _ in pages]
    for picture, lines in zip(drawn, pages, strict=True):
        for left, top, text in lines:
            ImageDraw.Draw(picture).text((left, top), text, fill="black", font=ImageFont.load_default(28))
    drawn[0].save(path, resolution=150, save_all=True, append_images=drawn[1:])
    return path


def columns() -> list[tuple[int, int, str]]:
    left = [(100, 100 + 60 * row, text) for row, text in enumerate(LEFT)]
    right = [(660, 100 + 60 * row, text) for row, text in enumerate(RIGHT)]
    return sorted([*left, *right, (100, 340, BELOW)], key=lambda one: one[1])


def test_the_text_of_a_scanned_page_is_recognised_column_by_column(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    text, notes = read_apart(scan(tmp_path / "lease.pdf", columns(), []))
    assert text.split("\n\n")[0].splitlines() == [*LEFT, *RIGHT, BELOW]
    assert notes[0].startswith("Recognised in pictures (OCR): page 1 of 2. The confidence is 9")
    assert notes[1:] == ["Left out: page 2 of 2 without text (perhaps only pictures)."]


def test_columns_are_told_from_the_cells_of_a_table() -> None:
    lines = [Line(left, left + 14 * len(text), text) for left, _, text in columns()]
    assert list(in_order(lines)) == [*LEFT, *RIGHT, BELOW]
    cells = [
        Line(100, 160, "Rent"),
        Line(900, 980, "740"),
        Line(100, 180, "Deposit"),
        Line(900, 980, "1,480"),
    ]
    assert list(in_order(cells)) == ["Rent", "740", "Deposit", "1,480"]


def test_a_scan_that_cannot_be_recognised_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(DocumentUnreadable, match="only pictures: have the text recognised") as caught:
        read_apart(scan(tmp_path / "blank.pdf", []))
    assert ("pip install rapidocr" in str(caught.value)) is not can_recognise()
