"""The documents of a chat: the collections that it searches, and the files and long texts attached to it.
Attachments are in a collection of the chat, which other chats do not offer."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import gradio as gr

from app.conversation import is_private
from app.documents.documents import Documents
from app.errors import AppError
from app.ui.chat.chat_settings import change_settings, settings_of, switched
from app.ui.chat.state import ChatState
from app.ui.frame.event_handlers import Actions
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.templates import render, without_number
from app.ui.frame.undo import remove_document
from app.ui.frame.uploads import use_uploads
from app.values.display_text import title_of
from app.values.document import ATTACHED, Collection, Document
from app.values.tools import ServerText

PRIVATE = "A private chat stores nothing, so nothing can be attached to it. Attach files to another chat."
Ids = tuple[int, ...]
ToolChoice = tuple[str, str, bool, Sequence[ServerText]]
"""A tool of the app or a tool server: its name, a note on its state, whether the chat uses it, and its texts."""
GONE = "A deleted collection"


def chosen_collections_html(
    documents: Documents, chosen: Sequence[int], tools: Sequence[ToolChoice] = (), note: str = ""
) -> str:
    """Return the picker for a chat with these collections and tools, without other chats' attachments."""
    collections = [one for one in documents.collections() if one.id in chosen or not one.is_attached]
    attached = [each for one in collections if one.is_attached for each in documents.documents(one.id)]
    return collection_picker_html(collections, chosen, attached, tools, note)


def collection_picker_html(
    collections: Sequence[Collection],
    chosen: Sequence[int],
    attached: Sequence[Document] = (),
    tools: Sequence[ToolChoice] = (),
    note: str = "",
) -> str:
    """Return the picker as HTML: a button that names the sources and tools in use, and the list that it opens.
    Empty collections are offered only if they are chosen; each document in `attached` has a button to remove it."""
    names = {one.id: _name(one, attached) for one in collections if one.documents or one.id in chosen}
    names |= {one: GONE for one in chosen if one not in names}
    used = [name for name, _, is_used, _ in tools if is_used]
    labels = list[str]()
    if names:
        label = ", ".join(names[one] for one in chosen) or "off"
        labels.append(label if label.startswith(ATTACHED) else f"Documents: {label}")
    if tools:
        labels.append(f"Tools: {', '.join(used) or 'off'}")
    if not labels:
        return ""
    # Attached files cannot be turned off, because those that no chat searches are deleted when the app closes.
    own = {one.id for one in collections if one.is_attached}
    choices = [(one, name, one in chosen, one in own) for one, name in names.items()]
    return render(
        "collection_picker.html", is_on=chosen or used, label=" · ".join(labels), choices=choices,
        attached=attached, tools=tools, note=note,
    )  # fmt: skip


def _name(collection: Collection, attached: Sequence[Document]) -> str:
    """Return a collection's label; for attached files, the first readable file's title and the number of others."""
    if not collection.is_attached:
        return collection.name
    titles = [one.title for one in attached if one.collection == collection.id and one.state != "failed"]
    first = f"{ATTACHED}{titles[0]}" if titles else without_number(collection.name)[0]
    return first + (f" and {len(titles) - 1:,} more" if len(titles) > 1 else "")


class ChatDocuments(Actions):
    """The event handlers of the paperclip, a drop on the chat, a long first message, and the picker."""

    def attach_files(self, state: ChatState, paths: Sequence[str] | str | None) -> None:
        """Attach uploaded files to the chat. Deletes the uploads, because the documents service keeps copies."""
        given = [paths] if isinstance(paths, str) else list(paths or ())

        def attach(files: list[Path]) -> None:
            self._services.documents.add_uploads(self._own_collection(state, files[0].name), files)

        if given:
            self._succeeded(lambda: use_uploads(given, attach))

    def attach_text(self, state: ChatState, text: str, title: str = "") -> bool:
        """Attach a text to the chat; returns whether that succeeded."""
        paste, name = self._services.documents.paste, title or title_of(text)
        return self._succeeded(lambda: paste(self._own_collection(state, name), text, title))

    def remove(self, state: ChatState, document: int) -> None:
        """Remove an attached document. After the last one, the chat no longer searches its attachments."""
        documents, chat, opened = self._services.documents, state.version.chat, state.opened
        own = documents.document(document).collection

        def undone() -> None:
            """Search the document's collection again, in the chat from which the document was removed."""
            if chat or state.opened == opened:
                self._choose(state, chat or state.version.chat, lambda now: tuple(dict.fromkeys((*now, own))))

        remove_document(documents, self._services.deletions, document, undone)
        if not any(one.id == own and one.documents for one in documents.collections()):
            self._choose(state, chat, lambda now: tuple(one for one in now if one != own))

    def choose_collection(self, state: ChatState, event: gr.EventData) -> None:
        """Turn a collection on or off for the chat, or remove an attached document."""
        do, name, _ = pressed(event)
        if do == "choose-collection":
            chat = state.version.chat
            self._succeeded(lambda: self._choose(state, chat, lambda now: switched(now, int(name))))
        elif do == "remove-attached":
            self._succeeded(lambda: self.remove(state, int(name)))

    def _choose(self, state: ChatState, chat: int, choose: Callable[[Ids], Ids]) -> None:
        change_settings(
            self._services, state, chat, lambda now: replace(now, collections=choose(now.collections))
        )

    def _own_collection(self, state: ChatState, name: str) -> int:
        """Return the chat's own collection. Creates it for the first attached file. Raises AppError."""
        if state.is_private or is_private(state.version.chat):
            raise AppError(PRIVATE)
        settings, collections = settings_of(self._services, state), self._services.documents.collections()
        for one in collections:
            if one.id in settings.collections and one.is_attached:
                return one.id
        own = self._services.documents.create_attached(name)
        self._choose(state, state.version.chat, lambda now: (*now, own))
        return own
