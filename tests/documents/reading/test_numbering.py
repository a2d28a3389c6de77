"""Numbers of clauses and list items, which Word, OpenDocument and browsers count themselves."""

from pathlib import Path

import pytest
from docx import Document
from docx.enum.style import WD_STYLE_TYPE

from app.documents.reading.html import markdown_of
from app.documents.reading.lists import written
from tests.documents import files
from tests.documents.reading.test_formats import open_document
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
    assert [written(number, "upperAlpha") for number in (1, 26, 27, 53, 703)] == ["A", "Z", "AA", "BA", "AAA"]
    assert [written(number, "upperRoman") for number in (4, 9, 1999)] == ["IV", "IX", "MCMXCIX"]
    assert [written(number, "decimalZero") for number in (3, 12)] == ["03", "12"]
    assert written(3, "chineseCounting") == "3" and written(0, "lowerRoman") == "0"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<ol><li>x<ol type=a><li>y<li>z</ol><li value=7>x<li>y</ol>", "1. x a. y b. z 7. x 8. y"),
        ("<ol start=3 type=I><li><p>x<p>more<li>y</ol><ol><li>z", "III. x more IV. y 1. z"),
        ("<ol reversed><li>x<ol reversed><li>y<li>z</ol><li>x</ol>", "2. x 2. y 1. z 1. x"),
        ("<ol reversed start=10><li>x<li value=4>y<li>z</ol>", "10. x 4. y 3. z"),
        ("<ol><li><h2>x</h2>y<li><ol type=i><li>z</ol></ol>", "## 1. x y 2. i. z"),
        ("<ul><li>x<ol><li>y</ol><li><h2>z</h2></ul>", "- x 1. y ## z"),
        (
            "<ol style='list-style: lower-alpha inside'><li>x<li style='list-style:none'>y<li>z",
            "a. x - y c. z",
        ),
        ("<li>x</li><ol start=99999999999><li value=two>y", "- x 1. y"),
    ],
    ids=["nested", "begun", "backwards", "set", "headings", "bullets around", "styled", "malformed"],
)
def test_items_have_the_numbers_that_browsers_show(markup: str, text: str) -> None:
    assert " ".join(markdown_of(markup).split()) == text


def numbered(place: int, kind: str, more: str) -> str:
    """The definition of a level of an OpenDocument list."""
    return f'<text:list-level-style-number text:level="{place}" style:num-format="{kind}" {more}/>'


STYLES = (
    f'<text:list-style style:name="L1">{numbered(1, "1", """style:num-suffix="." text:start-value="2" """)}'
    f'{numbered(2, "1", """text:display-levels="2" """)}'
    f'{numbered(3, "a", """style:num-prefix="(" style:num-suffix=")" """)}</text:list-style>'
    '<text:list-style style:name="L2"><text:list-level-style-bullet text:level="1"/></text:list-style>'
    f'<text:list-style style:name="L3">{numbered(1, "I", """style:num-list-format="Article %1%" """)}'
    "</text:list-style>"
    '<style:style style:name="Bare" style:family="paragraph" style:list-style-name=""/>'
)
OUTLINE = (
    '<text:outline-style style:name="Outline">'
    '<text:outline-level-style text:level="1" style:num-format="1" style:num-suffix="."/>'
    '<text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2"/>'
    "</text:outline-style>"
)


def items(*contents: str, style: str = "L1", more: str = "") -> str:
    """An OpenDocument list; `more` has further attributes of it."""
    inner = "".join(f"<text:list-item>{one}</text:list-item>" for one in contents)
    return f'<text:list text:style-name="{style}" {more}>{inner}</text:list>'


X, CONTINUED = "<text:p>x</text:p>", 'text:continue-numbering="true"'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (items(X + items(X, X + items(X, X)), X + items(X)), "2. x 2.1 x 2.2 x (a) x (b) x 3. x 3.1 x"),
        (items(X, X + X) + X + items(X, more=CONTINUED) + items(X), "2. x 3. x x x 4. x 2. x"),
        (
            items(X, more='xml:id="one"') + items(X, style="L2") + items(X, more='text:continue-list="one"'),
            "2. x - x 3. x",
        ),
        (items(X, items(X)) + items(items(X, X), more=CONTINUED), "2. x 2.1 x 2.2 x 2.3 x"),
        (items(X, X, style="L3") + items(X, style="L9"), "Article I x Article II x - x"),
        (items(X).replace("<text:list-item", '<text:list-item text:start-value="7"'), "7. x"),
        (items("<text:number>(4)</text:number>" + X, '<text:h text:outline-level="2">y</text:h>'), "(4) x ## 3. y"),
        (
            '<text:h>y</text:h><text:h text:outline-level="2">x</text:h><text:h text:style-name="Bare">z</text:h>'
            '<text:h text:is-list-header="true">z</text:h><text:h>y</text:h>',
            "# 1. y ## 1.1 x # z # z # 2. y",
        ),
    ],
    ids=["clauses", "continued", "by id", "deeper", "patterns", "begun", "written", "headings"],
)  # fmt: skip
def test_items_have_the_numbers_of_opendocument(tmp_path: Path, body: str, text: str) -> None:
    body = f"<office:text>{body}</office:text>"
    paper = open_document(tmp_path / "lease.odt", "text", body, styles=STYLES, outline=OUTLINE)
    assert " ".join(read(paper)[0].split()) == text
