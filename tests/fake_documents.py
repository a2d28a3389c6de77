"""Documents that are kept in memory and go no further than they are told."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from app.errors import AppError, DocumentNotFound
from app.values.document import ATTACHED, Citation, Collection, Document, DocumentState, Passage, PassageHit


class ScriptedDocuments:
    """Keeps what it is given, ready at once; `state` and `note` are what the next document becomes instead.

    `refuses` makes the next calls fail with this sentence."""

    def __init__(self) -> None:
        self.changes = 0
        self.problem = ""
        self.names: dict[int, str] = {}
        self.kept: dict[int, Document] = {}
        self.texts: dict[int, str] = {}
        self.hidden: dict[int, tuple[Document, str]] = {}
        self.hidden_names: dict[int, str] = {}
        self.calls: list[tuple[str, int]] = []
        self.uploads: list[tuple[str, bytes]] = []
        self.searched: list[tuple[tuple[int, ...], str]] = []
        self.state: DocumentState = "ready"
        self.note = ""
        self.refuses = ""
        self.is_given_whole = False
        self._last = 0

    def collections(self) -> tuple[Collection, ...]:
        return tuple(self._collection(number, name) for number, name in self.names.items())

    def create(self, name: str) -> int:
        number = self._next("create")
        self.names[number] = Collection(number, name).name
        return number

    def create_attached(self, title: str) -> int:
        names = [f"{ATTACHED}{title}", *(f"{ATTACHED}{title} ({number})" for number in range(2, 9))]
        return self.create(next(name for name in names if name not in self.names.values()))

    def delete_attached(self, kept: Iterable[int]) -> None:
        for one in self.collections():
            if one.is_attached and one.id not in set(kept):
                self.delete(one.id)

    def rename(self, collection: int, name: str) -> None:
        self._do("rename", collection)
        self.names[collection] = Collection(collection, name).name

    def delete(self, collection: int) -> tuple[int, ...]:
        self._do("delete", collection)
        self.hidden_names[collection] = self.names.pop(collection)
        inside = tuple(one.id for one in self.kept.values() if one.collection == collection)
        for document in inside:
            self._hide(document)
        return inside

    def documents(self, collection: int) -> tuple[Document, ...]:
        return tuple(one for one in self.kept.values() if one.collection == collection)

    def paste(self, collection: int, text: str, title: str = "") -> int:
        return self._keep(collection, text, title or text.strip().splitlines()[0][:60], "pasted")

    def add_uploads(self, collection: int, paths: Sequence[Path]) -> tuple[int, ...]:
        self.uploads += [(path.name, path.read_bytes()) for path in paths]
        return tuple(self._keep(collection, path.read_text("utf-8"), path.stem, path.name) for path in paths)

    def cancel_all(self, collection: int) -> None:
        self.cancel(*(one.id for one in self.documents(collection)))

    def cancel(self, *documents: int) -> None:
        for document in documents:
            if self.kept[document].state != "ready":
                self.become(document, state="cancelled")
                self._do("cancel", document)

    def again(self, document: int) -> None:
        self.become(document, state="ready", note="")
        self._do("again", document)

    def remove(self, document: int) -> None:
        self._do("remove", document)
        self._hide(document)

    def restore(self, documents: Iterable[int], collection: int = 0) -> None:
        self._do("restore", collection)
        if collection:
            self.names[collection] = self.hidden_names.pop(collection)
        for document in documents:
            self.kept[document], self.texts[document] = self.hidden.pop(document)

    def replaced_since(self, moment: float) -> tuple[Document, ...]:
        found = [one for one in self.kept.values() if one.replaced and one.replaced >= moment]
        return tuple(sorted(found, key=lambda one: one.replaced))

    def undo_replacement(self, document: int) -> int:
        self._do("undo_replacement", document)
        self.become(document, replaced=0.0)
        return document

    def text(self, document: int) -> str:
        if document not in self.texts:
            raise DocumentNotFound("This document has been removed, and its text with it.")
        return self.texts[document]

    def passages(self, document: int) -> tuple[Passage, ...]:
        text, start, passages = self.text(document), 0, []
        title = self.kept[document].title
        for number, part in enumerate(text.split("\n\n")):
            if part:
                place = (start, start + len(part))
                passages.append(Passage(document * 1000 + number, document, title, *place, part, "Part one"))
            start += len(part) + 2
        return tuple(passages)

    def document(self, document: int) -> Document:
        if document not in self.kept:
            raise DocumentNotFound("This document has been removed.")
        return self.kept[document]

    def passage(self, passage: int) -> Passage:
        return next(one for one in self.passages(passage // 1000) if one.id == passage)

    def between(self, document: int, start: int, end: int) -> str:
        return self.text(document)[start:end]

    def search(self, collections: Sequence[int], question: str, limit: int = 8) -> tuple[PassageHit, ...]:
        """The paragraphs with the first word of the question."""
        if self.refuses:
            raise AppError(self.refuses)
        self.searched.append((tuple(collections), question))
        word = question.split()[0].lower()
        passages = [
            passage
            for document in self.kept.values()
            if document.collection in collections and document.id in self.texts
            for passage in self.passages(document.id)
            if word in passage.text.lower()
        ]
        return tuple(PassageHit(passage, 0.03, 7.25, 1, 0.612, 2) for passage in passages[:limit])

    def whole(self, collections: Sequence[int], most_characters: int) -> tuple[Passage, ...]:
        """None, so that they are searched, unless `is_given_whole`."""
        kept = [one for one in self.kept.values() if one.collection in collections and one.id in self.texts]
        texts = [(one, self.texts[one.id]) for one in kept]
        if not self.is_given_whole or sum(len(text) for _, text in texts) > most_characters:
            return ()
        return tuple(Passage(0, one.id, one.title, 0, len(text), text) for one, text in texts)

    def words(self, cited: Citation) -> str:
        return self.text(cited.document)[cited.start : cited.end]

    def similarities(self, _texts: Sequence[str], _others: Sequence[str]) -> tuple[()]:
        return ()

    def become(self, document: int, **changes: object) -> None:
        self.kept[document] = replace(self.kept[document], **changes)  # type: ignore[arg-type]
        self.changes += 1

    def _keep(self, collection: int, text: str, title: str, source: str) -> int:
        number = self._next("keep")
        is_ready = self.state == "ready"
        self.kept[number] = Document(
            number, collection, title, source, self.state, self.note, len(text) if is_ready else 0,
            len(text.split("\n\n")) if is_ready else 0,
        )  # fmt: skip
        if is_ready:
            self.texts[number] = text
        return number

    def _collection(self, number: int, name: str) -> Collection:
        own = self.documents(number)
        return Collection(
            number, name, len(own), sum(one.characters for one in own), sum(one.passages for one in own)
        )

    def _hide(self, document: int) -> None:
        self.hidden[document] = self.kept.pop(document), self.texts.pop(document, "")

    def _next(self, call: str) -> int:
        self._last += 1
        self._do(call, self._last)
        return self._last

    def _do(self, call: str, number: int) -> None:
        if self.refuses:
            raise AppError(self.refuses)
        self.calls.append((call, number))
        self.changes += 1
