"""What reads documents and questions takes linear time."""

from pathlib import Path

import pytest

from app.documents.chunking import (
    FENCE,
    CodeOutline,
    Line,
    WritingOutline,
    chunks,
    joined_pages,
    marked_heading,
    numbered_heading,
    underlined_heading,
)
from app.documents.duplicates import is_new_version, trigrams
from app.documents.file_import import cleaned
from app.documents.reading.files import text_of
from app.documents.reading.html import read_html
from app.documents.reading.pdf import _tidied
from app.documents.reading.rich_text import read_rich_text
from app.documents.search.questions import self_contained
from app.documents.search.snippets import sentences, snippet
from app.documents.search.terms import content_words, indexed, terms
from app.values.document import Passage
from app.values.text_normalisation import without_surrogates
from tests.linear_time import QUICK, Read, linear_time_tests, read_all, require_linear
from tests.text_seeds import SEEDS


def heading(text: str) -> None:
    outline = WritingOutline(1)
    for line in (text, f"# {text}", f"chapter {text}"):
        numbered_heading(line)
        marked_heading(line)
        outline.begins_section(Line(0, line), Line(0, ""))
        outline.enter(Line(0, line))
    underlined_heading("a heading", text)
    joined_pages(f"page 1{text}", f"page 2{text}")


def code_line(text: str) -> None:
    outline = CodeOutline()
    for line in (text, f"class {text}", f"pub({text}", f"static {text}"):
        outline.enter(Line(0, line))


def line_of_writing(text: str) -> None:
    FENCE.match(text)
    read_all(sentences(text))


def passages_of(name: str) -> Read:
    return lambda text: read_all(chunks(iter([without_surrogates(text)]), name))


def focus(text: str) -> None:
    snippet(Passage(1, 1, "a", 0, len(text), text), "what of the word", 500)


def focus_on(text: str) -> None:
    snippet(Passage(1, 1, "a", 0, 600, "One word. " * 60), text, 300)


READERS: dict[str, Read] = {
    "cleaned": cleaned,
    "follow-up": lambda text: self_contained(text, [text, text]),
    "heading": heading,
    "line of code": code_line,
    "line of writing": line_of_writing,
    "passages of writing": passages_of("a.md"),
    "passages of code": passages_of("a.py"),
    "newer form": lambda text: is_new_version(trigrams(text), trigrams(text)),
    "index of documents": indexed,
    "words of a question": lambda text: (terms(text), content_words(text)),
    "snippet passage": focus,
    "snippet by a question": focus_on,
    "encoding": lambda text: text_of(text.encode("cp1252", "replace") + b"\xe9"),
    "page of a PDF": _tidied,
}


test_it_takes_linear_time, test_it_takes_linear_time_for_a_megabyte = linear_time_tests(READERS)


PAGES = (
    "newlines", "tags", "words", "ideographs", "ampersands", "entities", "less-than signs", "tags without an end",
    "comments without an end", "comments", "comments within comments", "sections without an end",
    "ends of sections", "declarations without an end", "instructions without an end", "end tags without an end",
    "end tags",
    "elements ever deeper", "scripts without an end", "scripts that nearly end", "attributes without an end",
    "attributes without a value",
)  # fmt: skip
BEGINNINGS = ("", "<script>", "<!--", "<a b='", "<pre>")


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_page_of_the_web_is_heard_in_linear_time(beginning: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"

    def read(text: str) -> None:
        file.write_text(beginning + text, encoding="utf-8", errors="replace")
        read_all(read_html(file, "page.html"))

    for seed in PAGES:
        require_linear(read, SEEDS[seed], 4 * QUICK)


@pytest.mark.parametrize(
    "beginning, seed",
    [
        (r"{\rtf1{\fonttbl", r"{\f1\fcharset1 "),
        (r"{\rtf1{\fonttbl", r"\f1"),
        (r"{\rtf1 ", r"{\field{\*\fldinst{HYPERLINK "),
    ],
)
def test_a_rich_text_is_read_in_linear_time(beginning: str, seed: str, tmp_path: Path) -> None:
    file = tmp_path / "text.rtf"

    def read(text: str) -> None:
        file.write_text(beginning + text)
        read_all(read_rich_text(file, "text.rtf"))

    require_linear(read, seed, 4 * QUICK)
