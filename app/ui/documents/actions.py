"""What events of the documents' view do. They translate between the page and the documents, and nothing else."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gradio as gr

from app.errors import AppError, impossible_values
from app.ui.documents.meaning import MeaningModel
from app.ui.documents.port import Documents
from app.ui.documents.seat import LISTED, DocumentsSeat, Question, Result
from app.ui.documents.watching import chosen_of
from app.ui.error_handling import Notify, succeeded, try_or_notify
from app.ui.uploads import discard, upload_at

FIRST_NAME = "My documents"
"""The collection that is made for a text that is pasted before there is one."""

ASKED: dict[str, Callable[[int], Question]] = {
    "ask-delete": partial(Question, "collection"),
    "ask-remove": partial(Question, "document"),
    "keep": lambda _: Question(),
}
"""What is asked after these buttons."""


class DocumentActions:
    """The events of the documents' view. Each page has a seat, which its events get and change."""

    def __init__(self, documents: Documents, meaning: MeaningModel, notify: Notify) -> None:
        self._documents = documents
        self._meaning = meaning
        self._notify = notify
        self._deeds: dict[str, Callable[[int, str], None]] = {
            "rename": self._rename,
            "delete": lambda collection, _: documents.delete(collection),
            "cancel": lambda document, _: documents.cancel(document),
            "again": lambda document, _: documents.again(document),
            "remove": lambda document, _: documents.remove(document),
            "get-meaning": lambda *_: meaning.get(),
        }

    def act(self, seat: DocumentsSeat, event: gr.EventData) -> None:
        """Do what a button in a list says."""
        do, name, value = (str(event._data.get(key, "")) for key in ("do", "name", "value"))
        succeeded(self._notify, lambda: self._do(seat, do, int(name or 0), value))

    def paste(self, seat: DocumentsSeat, text: str, title: str) -> tuple[Any, Any]:
        """Take in the text of the box, which is emptied once it is kept."""
        if not text.strip():
            self._notify("There is nothing to add yet: paste a text into the box, or choose files.")
            return gr.skip(), gr.skip()
        is_kept = succeeded(
            self._notify, lambda: self._documents.paste(self._collection(seat), text, title.strip())
        )
        return ("", "") if is_kept else (gr.skip(), gr.skip())

    def add_files(self, seat: DocumentsSeat, paths: Sequence[str] | None) -> None:
        """Take in files that were uploaded; the documents have copies of their own, so the uploads go."""
        if not paths:
            return
        files = try_or_notify(self._notify, lambda: [upload_at(path) for path in paths], [])
        if not files:
            return
        try:
            succeeded(self._notify, lambda: self._documents.add_uploads(self._collection(seat), files))
        finally:
            for file in files:
                discard(file)

    def search(self, seat: DocumentsSeat, question: str) -> None:
        """Search the open collection, as a chat would."""
        searched = question.strip()
        seat.result = Result()
        if not searched:
            return
        try:
            collection = self._chosen(seat)
            found = self._documents.search((collection,), searched) if collection else ()
            seat.result = Result(searched, found)
        except AppError as error:
            seat.result = Result(searched, problem=str(error))

    def _rename(self, collection: int, name: str) -> None:
        with impossible_values():
            self._documents.rename(collection, name)

    def _do(self, seat: DocumentsSeat, do: str, name: int, value: str) -> None:
        match do:
            case "create":
                with impossible_values():  # the name
                    seat.open(self._documents.create(value))
            case "choose":
                seat.open(name)
            case "ask-delete" | "ask-remove" | "keep":
                seat.question = ASKED[do](name)
            case "more":
                seat.listed += LISTED
            case "clear":
                seat.result = Result()
            case _ if do in self._deeds:
                seat.question = Question()
                self._deeds[do](name, value)

    def _chosen(self, seat: DocumentsSeat) -> int:
        chosen = chosen_of(self._documents.collections(), seat.collection)
        return chosen.id if chosen else 0

    def _collection(self, seat: DocumentsSeat) -> int:
        """The open collection; the first text makes the first one."""
        seat.collection = self._chosen(seat) or self._documents.create(FIRST_NAME)
        return seat.collection
