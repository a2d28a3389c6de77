"""Numbers of clauses, which Word counts itself."""

from pathlib import Path

import pytest
from docx import Document
from docx.enum.style import WD_STYLE_TYPE

from app.documents.reading.numbering import written
from tests.documents import files
from tests.documents.reading.test_reading import read


def level(place: int, text: str, kind: str = "decimal", more: str = "") -> str:
    """The definition of a list's level."""
    start = f"<w:start w:val='1'/><w:numFmt w:val='{kind}'/>"
    return f"<w:lvl w:ilvl='{place}'>{start}{more}<w:lvlText w:val='{text}'/></w:lvl>"


CONTRACT = (
    level(0, "%1.") + level(1, "%1.%2") + level(2, "(%3)", "lowerLetter") + level(3, "%4", "upperRoman")
)
KINDS = (
    f"<w:abstractNum w:abstractNumId='0'>{CONTRACT}</w:abstractNum>"
    f"<w:abstractNum w:abstractNumId='1'>{level(0, '-', 'bullet')}</w:abstractNum>"
    f"<w:abstractNum w:abstractNumId='2'>{level(0, 'Article %1', 'upperRoman')}"
    f"{level(1, 'Section %1.%2', 'decimalZero', '<w:isLgl/>')}</w:abstractNum>"
)
LISTS = KINDS + (
    "<w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num>"
    "<w:num w:numId='2'><w:abstractNumId w:val='1'/></w:num>"
    "<w:num w:numId='3'><w:abstractNumId w:val='2'/></w:num>"
    "<w:num w:numId='4'><w:abstractNumId w:val='0'/><w:lvlOverride w:ilvl='0'><w:startOverride w:val='7'/>"
    "</w:lvlOverride></w:num>"
)


def paragraphs(*items: tuple[int, int]) -> str:
    """A paragraph x at each of these levels of these lists; list 0 is none."""
    return "".join(
        f"<w:p><w:pPr><w:numPr><w:ilvl w:val='{place}'/><w:numId w:val='{number}'/></w:numPr></w:pPr>[x]</w:p>"
        for number, place in items
    )


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([(1, 0), (1, 1), (1, 1), (1, 0), (1, 1)], "1. x 1.1 x 1.2 x 2. x 2.1 x"),
        ([(1, 0), (1, 1), (1, 2), (1, 2), (1, 3), (1, 1), (1, 2)], "1. x 1.1 x (a) x (b) x I x 1.2 x (a) x"),
        ([(1, 0), (2, 0), (0, 0), (1, 0)], "1. x - x x 2. x"),
        ([(1, 0), (4, 0), (4, 0), (1, 0)], "1. x 7. x 8. x 9. x"),
        ([(3, 0), (3, 1), (3, 0), (3, 1)], "Article I x Section 1.1 x Article II x Section 2.1 x"),
        ([(1, 1), (9, 0), (1, 7)], "1.1 x x x"),
    ],
    ids=["clauses", "letters", "bullets between", "begun anew", "legal", "undefined"],
)  # fmt: skip
def test_paragraphs_have_the_numbers_that_word_shows(
    tmp_path: Path, items: list[tuple[int, int]], text: str
) -> None:
    paper = files.marked_docx(tmp_path / "lease.docx", paragraphs(*items), lists=LISTS)
    assert " ".join(read(paper)[0].split()) == text


def test_a_style_may_number_its_headings(tmp_path: Path) -> None:
    named = LISTS.replace("<w:start", "<w:pStyle w:val='Clause'/><w:start", 2).replace(
        "'Clause'", "'Part'", 1
    )
    path = files.marked_docx(tmp_path / "lease.docx", "", lists=named)
    document = Document(str(path))
    for name, place in (("Part", 0), ("Clause", 1)):
        style = document.styles.add_style(name, WD_STYLE_TYPE.PARAGRAPH)
        style.base_style = document.styles[f"Heading {place + 1}"]
        style.element.get_or_add_pPr().get_or_add_numPr().get_or_add_numId().val = 1
    for style, text in (("Part", "Scope"), ("Part", "Term"), ("Clause", "Notice")):
        document.add_paragraph(text, style=style)
    document.save(str(path))
    assert read(path)[0] == "# 1. Scope\n\n# 2. Term\n\n## 2.1 Notice\n\n"


def test_numbers_are_written_in_the_kinds_of_lists() -> None:
    assert [written(number, "lowerLetter") for number in (1, 26, 27, 53)] == ["a", "z", "aa", "aaa"]
    assert [written(number, "upperRoman") for number in (4, 9, 1999)] == ["IV", "IX", "MCMXCIX"]
    assert [written(number, "decimalZero") for number in (3, 12)] == ["03", "12"]
    assert written(3, "chineseCounting") == "3" and written(0, "lowerRoman") == "0"
