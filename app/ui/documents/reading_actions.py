"""What opens a document in the panel beside a view, and what is pressed in the panel itself."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from app.conversation import Conversations
from app.document_messages import Citation, Sources
from app.errors import AppError
from app.ui.chat.state import ChatState
from app.ui.documents.port import Documents
from app.ui.documents.reading import (
    Passport,
    Reading,
    Shown,
    missing_html,
    of_button,
    opened,
    prompt_html,
    reading_html,
    with_more,
)
from app.ui.documents.words import scores_in_words

WHOLE = "The model has read the whole document."
Panel = tuple[Any, Any]
"""A reading, and the panel that shows it."""
UNCHANGED: Panel = gr.skip(), gr.skip()


class ReadingActions:
    """The events of the panel. No state of its own."""

    def __init__(self, documents: Documents, conversations: Conversations) -> None:
        self._documents = documents
        self._conversations = conversations

    def act(self, chat: ChatState, reading: Reading, event: gr.EventData) -> Panel:
        """Open what a button says, or show more of what is open: the reading, and how it looks."""
        do, name, value = (str(event._data.get(key, "")) for key in ("do", "name", "value"))
        match do:
            case "read":
                return self._show(opened(of_button(value)))
            case "source":
                return self._open_source(chat.version.chat, int(name), int(value))
            case "above" | "below":
                return self._show(with_more(reading, do))
            case "passage":
                return self._show(reading)
            case "prompt":
                prompt_of = self._conversations.prompt_of
                return _told(reading, lambda: prompt_html(reading, prompt_of(*reading.answer)))
        return UNCHANGED

    def _show(self, reading: Reading) -> Panel:
        return _told(reading, lambda: reading_html(reading, self._shown(reading)))

    def _shown(self, reading: Reading) -> Shown:
        """Of a long text no more than what is shown is loaded."""
        document, first = reading.what.document, reading.first
        length = self._documents.document(document).characters
        return Shown(self._documents.between(document, first, min(reading.last, length)), length)

    def _open_source(self, chat: int, message: int, number: int) -> Panel:
        """The source that an answer calls by this number; why not, where it is gone."""
        title = "Source"
        try:
            sources = self._sources(chat, message)
            for cited in sources.cited if sources else ():
                if cited.number == number:
                    title = cited.title
                    what = self._whole(cited) if sources and sources.is_whole else self._passage(cited)
                    return self._show(opened(what, (chat, message)))
        except AppError as error:
            reading = opened(Passport(0, title), (chat, message))
            return reading, missing_html(reading, str(error))
        return UNCHANGED

    def _sources(self, chat: int, message: int) -> Sources | None:
        """Of the reply that is being written, the store may not know them yet."""
        newest = self._conversations.newest(chat)
        if newest and newest.message == message and newest.before.sources:
            return newest.before.sources
        return self._conversations.book.of(chat).message(message).written.sources

    def _whole(self, cited: Citation) -> Passport:
        """The whole document. Raises DocumentNotFound where it says something else now."""
        self._documents.words(cited)
        return Passport(cited.document, cited.title, heading=WHOLE)

    def _passage(self, cited: Citation) -> Passport:
        """Where the cited words stand now. Raises DocumentNotFound where they do no more."""
        self._documents.words(cited)
        heading, start = "", cited.start
        if cited.passage:
            found = self._documents.passage(cited.passage)
            heading, start = found.heading, found.start + cited.within
        end = start + cited.end - cited.start
        scores = scores_in_words(cited.bm25, cited.similarity)
        return Passport(cited.document, cited.title, start, end, heading, scores)


def _told(reading: Reading, drawn: Callable[[], str]) -> Panel:
    try:
        return reading, drawn()
    except AppError as error:
        return reading, missing_html(reading, str(error))
