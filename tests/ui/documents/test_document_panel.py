"""The document panel: the passage is highlighted, and long texts are sent in parts."""

from html import unescape
from typing import Any

import gradio as gr

from app.ui import Services
from app.ui.chat.state import ChatState
from app.ui.documents.document_panel import (
    CONTEXT,
    MORE,
    DocumentPanelActions,
    DocumentPanelState,
    DocumentRef,
)
from tests.fake_documents import ScriptedDocuments

LONG = "".join(f"{number:07}\n" for number in range(10_000))
EVIL = "</p></article><script>alert(1)</script><mark>"


def act(services: Services, do: str, value: str = "", state: DocumentPanelState | None = None) -> Any:
    state = state or DocumentPanelState()
    event = gr.EventData(None, {"do": do, "name": "", "value": value})
    return DocumentPanelActions(services).click(ChatState(), state, event)


def kept(documents: ScriptedDocuments, text: str) -> int:
    return documents.paste(documents.create("Contracts"), text, "Lease")


def highlighted(html: str) -> str:
    return unescape(html.partition("<mark>")[2].partition("</mark>")[0])


def test_a_button_carries_what_it_opens() -> None:
    ref = DocumentRef(3, 'Lease "of" <a> flat', 5, 9, "Rent, Due", "Found by its words")
    assert DocumentRef.from_json(ref.to_json()) == ref


def test_exactly_the_passage_is_highlighted(services: Services, documents: ScriptedDocuments) -> None:
    text = "The rent.\n\nThe tenant <b>pays</b> 1,200 € & more.\n\nThe end."
    start = text.index("The tenant")
    ref = DocumentRef(
        kept(documents, text), "Lease", start, text.index("\n\nThe end"), "Rent", "Found by its words"
    )
    _, html = act(services, "read", ref.to_json())
    assert highlighted(html) == "The tenant <b>pays</b> 1,200 € & more."
    assert ("Rent" in html, "Found by its words" in html) == (True, True)


def test_of_a_long_text_what_stands_around_the_passage_is_shown(
    services: Services, documents: ScriptedDocuments
) -> None:
    ref = DocumentRef(kept(documents, LONG), "Lease", 40_000, 40_008)
    state, html = act(services, "read", ref.to_json())
    assert highlighted(html) == "0005000\n"
    assert ("0004500" in html, "0004499" in html, "0005501" in html) == (True, False, False)
    assert f"{40_000 - CONTEXT:,} characters above" in html
    _, above = act(services, "above", state=state)
    assert ("0003000" in above, "0005501" in above) == (True, False)
    _, below = act(services, "below", state=state)
    assert f"{len(LONG) - 40_008 - CONTEXT - MORE:,} characters below" in below


def test_a_document_that_is_opened_whole_begins_at_its_beginning(
    services: Services, documents: ScriptedDocuments
) -> None:
    _, html = act(services, "read", DocumentRef(kept(documents, "A text."), "Lease").to_json())
    assert ("A text." in html, "<mark>" in html, "Show more" in html) == (True, False, False)


def test_more_ends_where_the_text_ends(services: Services, documents: ScriptedDocuments) -> None:
    state, html = act(services, "read", DocumentRef(kept(documents, "x" * 5000), "Lease").to_json())
    assert "1,000 characters below" in html
    _, html = act(services, "below", state=state)
    assert "Show more" not in html


def test_nothing_in_a_document_is_more_than_text(services: Services, documents: ScriptedDocuments) -> None:
    ref = DocumentRef(kept(documents, EVIL), EVIL, 4, 8, EVIL)
    _, html = act(services, "read", ref.to_json())
    assert (html.count("<mark>"), html.count("</article>"), "<script" in html) == (1, 1, False)


def test_a_removed_document_says_so(services: Services, documents: ScriptedDocuments) -> None:
    document = kept(documents, "A text.")
    documents.remove(document)
    _, html = act(services, "read", DocumentRef(document, "Lease", 0, 3).to_json())
    assert ("has been removed" in html, "Lease" in html) == (True, True)
