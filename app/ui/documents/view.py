"""The Documents view: collections on the left, the open collection's documents and search beside them, and the
embedding model that semantic search needs."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradio as gr

from app.documents.documents import Documents
from app.errors import AppError, impossible_values
from app.ui.frame.event_handlers import LISTEN, UPLOADED, Actions, PageEvents, try_at_box
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.page_connections import PageValue
from app.ui.frame.services import Services
from app.ui.frame.undo import remove_document
from app.ui.frame.uploads import use_uploads
from app.values.display_text import counted
from app.values.document import Collection, PassageHit
from app.values.model import Download

PAGE_SIZE = 100
"""How many documents are listed at first, and how many more after each "Show more"."""
DEFAULT_COLLECTION = "My documents"
"""The collection that is created for a document if there is none."""
OFFLINE = "which cannot be downloaded while Foresight is offline. Turn off “Offline” under Models → Discover"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The passages that a search found, or why it failed."""

    question: str = ""
    hits: tuple[PassageHit, ...] = ()
    problem: str = ""


@dataclass(slots=True)
class DocumentsState:
    """One page's state in this view. Collection 0 means the first collection that is not attached to a chat."""

    collection: int = 0
    listed: int = PAGE_SIZE
    result: SearchResult = field(default_factory=SearchResult)

    def open(self, collection: int) -> None:
        """Show this collection from its first documents, without search results."""
        self.collection, self.listed = collection, PAGE_SIZE
        self.result = SearchResult()


def open_collection(collections: Sequence[Collection], state: DocumentsState) -> Collection | None:
    """Return the chosen collection, or else the first collection that is not attached to a chat, or None. Attached
    collections are shown only if they are chosen, so that nothing is added to them by mistake."""
    first = next((one for one in collections if not one.is_attached), None)
    return next((one for one in collections if one.id == state.collection), first)


def listed_collections(services: Services) -> tuple[Collection, ...]:
    """Return the collections that the view lists: all except attached files that no chat searches."""
    found = services.documents.collections()
    if not any(one.is_attached for one in found):
        return found
    kept = services.conversations.stores.stored.used_collections()
    return tuple(one for one in found if one.id in kept or not one.is_attached)


@dataclass(frozen=True, slots=True)
class EmbeddingModelStatus:
    """The embedding model's name and state. `obstacle` says in a clause why the model cannot be downloaded now."""

    name: str
    is_installed: bool = False
    obstacle: str = ""
    download: Download | None = None

    @property
    def is_downloading(self) -> bool:
        """Whether the download runs or is queued."""
        return self.download is not None and self.download.state in ("queued", "running")


def embedding_model_status(services: Services) -> EmbeddingModelStatus:
    """Return the state of the embedding model that the settings name. Makes no network request."""
    library, models = services.settings.library, services.models
    repo = models.hub_id(library.embedder)
    obstacle = OFFLINE if library.is_offline else ""
    unfinished = (one for one in models.downloads.snapshot() if one.name == repo and one.state != "done")
    return EmbeddingModelStatus(
        library.embedder,
        models.is_here(library.embedder),
        obstacle if repo else "whose folder is missing",
        next(unfinished, None),
    )


class DocumentsActions(Actions):
    @property
    def _documents(self) -> Documents:
        return self._services.documents

    def click(self, state: DocumentsState, event: gr.EventData) -> None:
        do, name, value = pressed(event)
        self._succeeded(lambda: self._do(state, do, int(name or 0), value))

    def paste(self, state: DocumentsState, text: str, title: str) -> tuple[Any, Any, str]:
        """Add the pasted text as a document. Clears the boxes after it is stored, or returns what is wrong."""

        def add() -> None:
            if not text.strip():
                raise AppError("There is nothing to add. Paste text here, or choose files.")
            self._documents.paste(self._target_collection(state), text, title.strip())

        is_stored, faults = try_at_box("paste", add)
        return ("", "", faults) if is_stored else (gr.skip(), gr.skip(), faults)

    def add_files(self, state: DocumentsState, paths: Sequence[str] | None) -> None:
        """Add uploaded files as documents, and delete the uploads, because the documents service keeps copies."""

        def add(files: list[Path]) -> None:
            self._documents.add_uploads(self._target_collection(state), files)

        if paths:
            self._succeeded(lambda: use_uploads(paths, add))

    def search(self, state: DocumentsState, text: str) -> None:
        """Search the open collection as a chat would."""
        question = text.strip()
        state.result = SearchResult()
        if not question:
            return
        try:
            collection = self._open_collection(state)
            hits = self._documents.search((collection,), question) if collection else ()
            state.result = SearchResult(question, hits)
        except AppError as error:
            state.result = SearchResult(question, problem=str(error))

    def _do(self, state: DocumentsState, do: str, name: int, value: str) -> None:
        """Handle a button; `name` is the id of a document or a collection."""
        documents = self._documents
        actions: dict[str, Callable[[], object]] = {
            "create": lambda: state.open(documents.create(value)),
            "choose": lambda: state.open(name),
            "rename": lambda: documents.rename(name, value),
            "delete": lambda: self._delete(name),
            "cancel": lambda: documents.cancel(name),
            "cancel-all": lambda: documents.cancel_all(name),
            "retry": lambda: documents.again(name),
            "remove": lambda: remove_document(documents, self._services.deletions, name),
            "keep-both": lambda: documents.undo_replacement(name),
            "download-embedder": self._download_embedding_model,
        }
        if do == "more":
            state.listed += PAGE_SIZE
        elif do == "clear":
            state.result = SearchResult()
        elif do in actions:
            with impossible_values() if do in ("create", "rename") else nullcontext():
                actions[do]()

    def _delete(self, collection: int) -> None:
        documents = self._documents
        name = next((one.name for one in listed_collections(self._services) if one.id == collection), "")
        inside = [one.id for one in documents.documents(collection)]
        contents = f" with {counted(len(inside), 'document')}" if inside else ""
        self._services.deletions.delete(
            f"“{name}” was deleted{contents}.",
            lambda: documents.delete(collection),
            lambda: documents.restore(inside, collection),
        )

    def _download_embedding_model(self) -> None:
        status, downloads = embedding_model_status(self._services), self._services.models.downloads
        if status.download and status.download.state in ("paused", "failed"):
            downloads.resume(status.download.name)
        elif not status.is_downloading:
            downloads.start(status.name)

    def _open_collection(self, state: DocumentsState) -> int:
        collection = open_collection(listed_collections(self._services), state)
        return collection.id if collection else 0

    def _target_collection(self, state: DocumentsState) -> int:
        """Return the open collection, which is created if there is none."""
        state.collection = self._open_collection(state) or self._documents.create(DEFAULT_COLLECTION)
        return state.collection


def build_documents_view(
    actions: DocumentsActions, events: PageEvents
) -> tuple[PageValue[DocumentsState], list[gr.HTML]]:
    """Build the view. Returns its state, and the lists whose buttons open the document panel."""
    state = PageValue(DocumentsState)
    with gr.Row(elem_id="documents"):
        with gr.Column(elem_id="collections-pane", scale=0, min_width=220):
            collections = gr.HTML(elem_id="collections", js_on_load=LISTEN)
        with gr.Column(elem_id="collection", scale=1):
            gr.HTML(elem_id="collection-title", js_on_load=None)
            _build_import(actions, state, events)
            _build_search(actions, state, events)
            semantic_search = gr.HTML(elem_id="semantic-search", js_on_load=LISTEN)
            results = gr.HTML(elem_id="search-results", js_on_load=LISTEN)
            documents = gr.HTML(elem_id="document-list", js_on_load=LISTEN)
    lists = (collections, semantic_search, results, documents)
    events.on([one.click for one in lists], actions.click, state)
    return state, [results, documents]


def _build_import(actions: DocumentsActions, state: PageValue[DocumentsState], events: PageEvents) -> None:
    with gr.Row(elem_id="import"):
        with gr.Column(elem_id="paste-column", scale=1, min_width=0):
            text = gr.Textbox(
                elem_id="paste", label="Text", show_label=False, container=False, lines=3, max_lines=8,
                placeholder="Paste text here, for example a contract, a manual or notes",
            )  # fmt: skip
            with gr.Row(elem_id="paste-row"):
                title = gr.Textbox(
                    elem_id="paste-title", label="Title", show_label=False, container=False, max_lines=1,
                    placeholder="Title (optional)", scale=1,
                )  # fmt: skip
                add = gr.Button("Add", elem_id="paste-add", variant="primary", scale=0, min_width=0)
        # A gr.File would accept no file while it sends another one, and its progress bar logs errors.
        files = gr.UploadButton(
            "Drop files here, or click to choose", elem_id="files", file_count="multiple", scale=0, min_width=220,
        )  # fmt: skip
    boxes = [text, title]
    events.on((add.click, title.submit), actions.paste, [state, *boxes], [*boxes, events.faults])
    events.on(files.upload, actions.add_files, [state, files], **UPLOADED)


def _build_search(actions: DocumentsActions, state: PageValue[DocumentsState], events: PageEvents) -> None:
    with gr.Row(elem_id="document-search"):
        question = gr.Textbox(
            elem_id="document-search-text", label="Search this collection", show_label=False, container=False,
            max_lines=1, placeholder="Search this collection as a chat would", scale=1,
        )  # fmt: skip
        search = gr.Button("Search", elem_id="document-search-button", scale=0, min_width=0)
    events.on((search.click, question.submit), actions.search, [state, question])
