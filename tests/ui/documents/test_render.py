"""The lists as HTML: every state is named, and text from outside is escaped."""

import pytest

from app.ui.documents.render import collections_html, documents_html, results_html, title_html
from app.ui.documents.view import SearchResult
from app.values.document import Collection, Document, DocumentState, Passage, PassageHit

EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


def listed(**about: object) -> str:
    return documents_html([Document(1, 1, "Lease", **about)], most=10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "done", "total", "words"),
    [
        ("waiting", 0, 0, "Waiting"),
        ("reading", 3, 12, "Reading, 3 of 12"),
        ("indexing", 1200, 3400, "Indexing, 1,200 of 3,400"),
        ("failed", 0, 0, "Failed"),
        ("cancelled", 0, 0, "Cancelled"),
    ],
)
def test_every_state_is_named(state: DocumentState, done: int, total: int, words: str) -> None:
    assert f">{words}</span>" in listed(state=state, done=done, total=total)


def test_a_document_under_way_has_a_bar_and_can_be_cancelled() -> None:
    html = listed(state="indexing", done=3, total=4)
    assert '<progress value="3" max="4"' in html
    assert ('data-do="cancel"' in html, 'data-do="remove"' in html) == (True, False)


def test_what_has_failed_says_why_and_can_be_tried_again() -> None:
    html = listed(state="failed", note="It is encrypted: open it, and save it without a password.")
    assert "without a password" in html
    assert ('data-do="retry"' in html, "<progress" in html) == (True, False)


@pytest.mark.parametrize(
    ("embedded", "words"),
    [
        (0, "8 passages · keyword search<"),
        (3, "keyword search, semantic search for 3 of 8 passages"),
        (8, "keyword and semantic search<"),
    ],
)
def test_it_says_how_a_document_can_be_searched(embedded: int, words: str) -> None:
    assert words in listed(state="ready", characters=9000, passages=8, embedded=embedded)


def test_long_lists_are_shown_in_parts() -> None:
    many = [Document(number, 1, f"d{number}") for number in range(1, 251)]
    html = documents_html(many, most=100)
    assert (html.count("<article"), "Show 150 more" in html) == (100, True)


def test_several_unfinished_documents_can_be_cancelled_at_once() -> None:
    several = [Document(number, 5, f"d{number}", state="waiting") for number in range(1, 251)]
    html = documents_html(several, most=100)
    assert "250 documents are still being imported." in html
    assert 'data-do="cancel-all" data-name="5"' in html
    assert "cancel-all" not in documents_html([*several[:1], Document(9, 5, "d", state="ready")], most=100)


def test_text_from_outside_is_escaped() -> None:
    document = Document(1, 1, EVIL, EVIL, "ready", EVIL, 10, 1)
    passage = Passage(1, 1, EVIL, 0, len(EVIL), EVIL, EVIL)
    htmls = (
        collections_html([Collection(1, EVIL, 1)], 1),
        title_html(Collection(1, EVIL, 1)),
        documents_html([document], 10),
        results_html(SearchResult(EVIL, (PassageHit(passage, 1.0, 1.0, 1),))),
        results_html(SearchResult(EVIL, (), EVIL)),
    )
    assert [html for html in htmls if "<script" in html or "<img" in html] == []


def test_a_result_begins_with_the_sentence_that_is_asked_for_and_marks_the_words_of_the_question() -> None:
    text = f"{'Of other things. ' * 60}The <b>rent</b> is 740 euros. It is due in May."
    passage = Passage(1, 1, "Lease", 0, len(text), text)
    shown = results_html(SearchResult("What is the rent?", (PassageHit(passage, 1.0, 1.0, 1),)))
    assert "The &lt;b&gt;<mark>rent</mark>&lt;/b&gt; is 740 euros. It is due in May.</p>" in shown
    assert '<p class="excerpt" dir="auto">…The' in shown


def test_a_result_has_no_marks_of_markdown_and_its_marked_words_are_right() -> None:
    text = "## Rent\n\n| month | **rent** |\n|---|---|\n| May | `740` |\n\n* Cats may stay."
    passage = Passage(1, 1, "lease.md", 0, len(text), text)
    shown = results_html(SearchResult("What is the rent?", (PassageHit(passage, 1.0, 1.0, 1),)))
    excerpt = shown.partition('<p class="excerpt" dir="auto">')[2].partition("</p>")[0]
    assert excerpt == "<mark>Rent</mark>\nmonth · <mark>rent</mark>\nMay · 740\n• Cats may stay."
