"""The panel that a document is read in. It opens beside every view, and what opens it is a button somewhere."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.conversation import Conversations
from app.document_messages import Cited, Sources
from app.errors import AppError, DocumentNotFound
from app.ui.chat.seat import Seat
from app.ui.documents.port import Documents
from app.ui.documents.reading import (
    Passport,
    Reading,
    missing_html,
    of_button,
    opened,
    prompt_html,
    reading_html,
    with_more,
)
from app.ui.documents.words import scores_in_words

CLOSE = '<button type="button" class="act" data-close="reading" title="Close (Esc)">Close</button>'
WHOLE = "The model has read the whole document."
Shown = tuple[Any, Any]
"""A reading, and the panel that shows it."""


@dataclass(frozen=True, slots=True)
class ReadingArea:
    """The panel's components, and what this page reads."""

    reading: gr.State
    text: gr.HTML


class ReadingActions:
    """The events of the panel. No state of its own."""

    def __init__(self, documents: Documents, conversations: Conversations) -> None:
        self._documents = documents
        self._conversations = conversations

    def act(self, seat: Seat, reading: Reading, event: gr.EventData) -> Shown:
        """Open what a button says, or show more of what is open: the reading, and how it looks."""
        do, name, value = (str(event._data.get(key, "")) for key in ("do", "name", "value"))
        match do:
            case "read":
                return self._show(opened(of_button(value)))
            case "source":
                return self._cite(seat.place.chat, int(name), int(value))
            case "above" | "below":
                return self._show(with_more(reading, do))
            case "passage":
                return self._show(reading)
            case "prompt":
                prompt_of = self._conversations.prompt_of
                return self._tell(reading, lambda: prompt_html(reading, prompt_of(*reading.answer)))
        return gr.skip(), gr.skip()

    def _show(self, reading: Reading) -> Shown:
        text = self._documents.text
        return self._tell(reading, lambda: reading_html(reading, text(reading.what.document)))

    def _tell(self, reading: Reading, drawn: Callable[[], str]) -> Shown:
        try:
            return reading, drawn()
        except AppError as error:
            return reading, missing_html(reading, str(error))

    def _cite(self, chat: int, message: int, number: int) -> Shown:
        """The source that an answer calls by this number."""
        try:
            sources = self._sources(chat, message)
        except AppError as error:
            return self._tell_missing(str(error))
        for cited in sources.cited if sources else ():
            if cited.number == number:
                what = self._passport(cited, sources is not None and sources.is_whole)
                return self._show(opened(what, (chat, message)))
        return gr.skip(), gr.skip()

    def _tell_missing(self, sentence: str) -> Shown:
        reading = opened(Passport(0, "Source"))
        return reading, missing_html(reading, sentence)

    def _sources(self, chat: int, message: int) -> Sources | None:
        """Of the reply that is being written, the store may not know them yet."""
        newest = self._conversations.newest(chat)
        if newest and newest.message == message and newest.before.sources:
            return newest.before.sources
        return self._conversations.book.of(chat).message(message).written.sources

    def _passport(self, cited: Cited, is_whole: bool) -> Passport:
        if is_whole:
            return Passport(cited.document, cited.title, heading=WHOLE)
        scores = scores_in_words(cited.bm25, cited.similarity)
        found = None
        with suppress(DocumentNotFound):  # which is told when its text is asked for
            passages = self._documents.passages(cited.document)
            found = next((one for one in passages if cited.passage and one.id == cited.passage), None)
            found = found or next((one for one in passages if one.start == cited.start), None)
        heading = found.heading if found else ""
        start, end = (found.start, found.end) if found and cited.passage else (cited.start, cited.end)
        return Passport(cited.document, cited.title, start, end, heading, scores)


def build_reading_area() -> ReadingArea:
    """Build the panel inside the current Blocks, outside of all views."""
    with gr.Column(elem_id="reading"):
        gr.HTML(CLOSE, elem_id="reading-bar", js_on_load=None)
        text = gr.HTML(elem_id="reading-text", js_on_load="foresight.reading(element, trigger)")
    return ReadingArea(gr.State(Reading()), text)


def wire_reading(
    area: ReadingArea,
    actions: ReadingActions,
    places: Sequence[gr.HTML],
    seat: gr.State,
    listen: dict[str, Any],
) -> None:
    """Join the panel, and the places whose buttons open it, with what they do."""
    for place in (*places, area.text):
        place.click(actions.act, [seat, area.reading], [area.reading, area.text], **listen)
