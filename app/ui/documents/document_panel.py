"""The document panel, which opens beside any view. It shows a document's text around a highlighted passage, and
more on request."""

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from time import time_ns
from typing import Any

import gradio as gr

from app.conversation.citation_check import claim_at
from app.documents.search.snippets import best_sentence
from app.errors import AppError
from app.ui.chat.state import ChatState
from app.ui.frame.event_handlers import PageEvents
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.page_connections import PageValue
from app.ui.frame.services import Services
from app.ui.frame.templates import render_macro
from app.values.document import LITTLE_IN_COMMON, Citation, Sources
from app.values.validation import require

CONTEXT = 4_000
"""Characters that are shown before and after a passage at first."""
MORE = 12_000
"""How many more characters are shown with each "Show more"."""
WHOLE = "The model has read the whole document."
Panel = tuple[Any, Any]
"""The panel's state, and its HTML."""
UNCHANGED: Panel = gr.skip(), gr.skip()


@dataclass(frozen=True, slots=True)
class DocumentRef:
    """A document that a button opens, and the part from `start` to `end` to highlight, if any. `doubt` is why the
    citation may be wrong."""

    document: int
    title: str
    start: int = 0
    end: int = 0
    heading: str = ""
    found_by: str = ""
    doubt: str = ""

    def to_json(self) -> str:
        return json.dumps(astuple(self))

    @classmethod
    def from_json(cls, value: str) -> "DocumentRef":
        return cls(*json.loads(value))


@dataclass(frozen=True, slots=True)
class DocumentPanelState:
    """The document that one page shows, and the part of its text from `first` to `last`. `opened_at` differs at
    each opening; `answer` is the chat and the message that cite the document, or zeros."""

    ref: DocumentRef = DocumentRef(0, "")
    first: int = 0
    last: int = 0
    opened_at: int = 0
    answer: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        require(
            0 <= self.first <= self.last,
            "the shown part must end after its beginning",
            (self.first, self.last),
        )


def open_ref(ref: DocumentRef, answer: tuple[int, int] = (0, 0)) -> DocumentPanelState:
    """Return the state that shows the document around the passage, with CONTEXT characters before and after it."""
    return DocumentPanelState(ref, max(0, ref.start - CONTEXT), ref.end + CONTEXT, time_ns(), answer)


def found_by(bm25: float, similarity: float, bm25_rank: int = 0, similarity_rank: int = 0) -> str:
    """Say whether a search found a passage by its words (BM25), its meaning or both, with the ranks if known.

    Score and rank 0 mean no match."""
    ways = (("words", bm25, bm25_rank), ("meaning", similarity, similarity_rank))
    found = [f"{way} (rank {rank})" if rank else way for way, score, rank in ways if score or rank]
    return f"Found by its {' and its '.join(found)}" if found else ""


class DocumentPanelActions:
    """The panel's event handlers, and those of the buttons that open it."""

    def __init__(self, services: Services) -> None:
        self._documents = services.documents
        self._conversations = services.conversations

    def click(self, chat: ChatState, state: DocumentPanelState, event: gr.EventData) -> Panel:
        """Open the document that a button refers to, or change what is shown of the open document."""
        do, name, value = pressed(event)
        match do:
            case "read":
                return self._show(open_ref(DocumentRef.from_json(value)))
            case "source":
                number, _, marker = value.partition(".")
                return self._open_source(chat.version.chat, int(name), int(number), int(marker or -1))
            case "above" | "below":
                first = max(0, state.first - MORE) if do == "above" else state.first
                last = state.last + MORE if do == "below" else state.last
                return self._show(replace(state, first=first, last=last))
            case "passage":
                return self._show(state)
            case "prompt":
                return self._show(state, is_prompt=True)
        return UNCHANGED

    def _show(self, state: DocumentPanelState, is_prompt: bool = False) -> Panel:
        """Show the document's text, or with `is_prompt` the prompt of the answer. On an error, show the reason."""
        try:
            if not is_prompt:
                return state, self._text_html(state)
            messages = self._conversations.prompt_of(*state.answer)
            return state, render_macro("document_panel.html", "prompt", state=state, messages=messages)
        except AppError as error:
            return _missing(state, error)

    def _text_html(self, state: DocumentPanelState) -> str:
        """Return the shown part of the text. Reads only that part from the store."""
        ref, first = state.ref, state.first
        length = self._documents.document(ref.document).characters
        text = self._documents.between(ref.document, first, min(state.last, length))
        start, end = (min(max(0, position - first), len(text)) for position in (ref.start, ref.end))
        parts = (text[:start], text[start:end], text[end:])
        below = max(0, length - first - len(text))
        return render_macro(
            "document_panel.html", "document", state=state, parts=parts, above=first, below=below
        )

    def _open_source(self, chat: int, message: int, number: int, marker: int) -> Panel:
        """Open the source that an answer cites by this number, or show why the source is gone. Highlights the
        sentence that best matches the claim before the citation. `marker` is the citation's index."""
        title = "Source"
        try:
            text, sources = self._answer(chat, message)
            for cited in sources.cited if sources else ():
                if sources and cited.number == number:
                    title = cited.title
                    ref = self._ref(cited, sources.is_whole)
                    ref = replace(ref, doubt=(doubt := sources.doubt(marker)))
                    claim = claim_at(text, marker)
                    if ref.end and doubt != LITTLE_IN_COMMON and claim:
                        passage = self._documents.between(ref.document, ref.start, ref.end)
                        start, end = best_sentence(passage, claim)
                        ref = replace(ref, start=ref.start + start, end=ref.start + end) if end else ref
                    return self._show(open_ref(ref, (chat, message)))
        except AppError as error:
            return _missing(open_ref(DocumentRef(0, title), (chat, message)), error)
        return UNCHANGED

    def _answer(self, chat: int, message: int) -> tuple[str, Sources | None]:
        """Return the message's text and sources. For a reply whose sources are not stored yet, returns "" and the
        sources that the reply was started with."""
        content = self._conversations.stores.of(chat).message(message).content
        newest = self._conversations.newest_reply(chat)
        if not content.sources and newest and newest.message == message:
            return "", newest.before.sources
        return content.text, content.sources

    def _ref(self, cited: Citation, is_whole: bool) -> DocumentRef:
        """Find the cited text in its document. Raises DocumentNotFound if the cited text was changed or deleted."""
        self._documents.words(cited)
        if is_whole:
            return DocumentRef(cited.document, cited.title, heading=WHOLE)
        heading, start = "", cited.start
        if cited.passage:
            passage = self._documents.passage(cited.passage)
            heading, start = passage.heading, passage.start + cited.within
        end, found = start + cited.end - cited.start, found_by(cited.bm25, cited.similarity)
        return DocumentRef(cited.document, cited.title, start, end, heading, found)


def _missing(state: DocumentPanelState, error: AppError) -> Panel:
    return state, render_macro("document_panel.html", "missing", state=state, problem=str(error))


def build_document_panel(
    actions: DocumentPanelActions, openers: Sequence[gr.HTML], chat: PageValue[ChatState], events: PageEvents
) -> None:
    """Build the panel inside the current Blocks, outside of all views; `openers` have the buttons that open it."""
    state = PageValue(DocumentPanelState)
    with gr.Column(elem_id="reading"):
        gr.HTML(render_macro("document_panel.html", "close_button"), elem_id="reading-bar", js_on_load=None)
        text = gr.HTML(elem_id="reading-text", js_on_load="foresight.reading(element, trigger)")
    for component in (*openers, text):
        events.on(component.click, actions.click, [chat, state], [state, text])
