"""Files and long texts attached to a chat: they go into a collection that this chat alone lists and searches."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from app.conversation import is_private
from app.documents import Documents
from app.errors import AppError
from app.ui.chat.chat_settings import save_settings, settings_of
from app.ui.chat.state import ChatState
from app.ui.frame.error_handling import Notify, succeeded, try_or_notify
from app.ui.frame.services import Services
from app.ui.frame.uploads import discard, upload_at
from app.values.display_text import title_of
from app.values.document import Collection, Document

PRIVATE = "A private chat stores nothing, so nothing can be attached to it. Attach files to another chat."


def listed(collections: Sequence[Collection], chosen: Sequence[int]) -> list[Collection]:
    """The collections that a chat may choose: all but those of other chats."""
    return [one for one in collections if one.id in chosen or not one.is_attached]


def unread_documents(documents: Documents, collections: Sequence[Collection]) -> list[Document]:
    """What is attached by these collections and could not be read."""
    attached = [one for one in collections if one.is_attached]
    return [each for one in attached for each in documents.documents(one.id) if each.state == "failed"]


class Attaching:
    """What the paperclip, a drop on the chat and a long first message do."""

    def __init__(self, services: Services, notify: Notify) -> None:
        self._services = services
        self._notify = notify

    def attach_files(self, state: ChatState, paths: Sequence[str] | str | None) -> None:
        """Attach uploaded files to the chat, and delete the uploads: the documents service copies them."""
        given = [paths] if isinstance(paths, str) else list(paths or ())
        files: list[Path] = try_or_notify(self._notify, lambda: [upload_at(path) for path in given], [])
        try:
            add = self._services.documents.add_uploads
            if files:
                self._attach(state, files[0].name, lambda into: add(into, files))
        finally:
            for file in files:
                discard(file)

    def attach_text(self, state: ChatState, text: str) -> bool:
        """Attach a text, and return whether it is attached."""
        return self._attach(state, title_of(text), lambda into: self._services.documents.paste(into, text))

    def remove(self, state: ChatState, document: int) -> None:
        """Remove an attached document. With the last one the chat no longer asks its collection."""
        documents = self._services.documents
        documents.remove(document)
        empty = [one.id for one in documents.collections() if one.is_attached and not one.documents]
        settings = settings_of(self._services, state)
        others = tuple(one for one in settings.collections if one not in empty)
        save_settings(self._services, state, replace(settings, collections=others))

    def _attach(self, state: ChatState, name: str, add: Callable[[int], object]) -> bool:
        return succeeded(self._notify, lambda: add(self._own_collection(state, name)))

    def _own_collection(self, state: ChatState, name: str) -> int:
        """The chat's collection, created and chosen when the first file is attached."""
        if state.is_private or is_private(state.version.chat):
            raise AppError(PRIVATE)
        settings, collections = settings_of(self._services, state), self._services.documents.collections()
        for one in collections:
            if one.id in settings.collections and one.is_attached:
                return one.id
        own = self._services.documents.create_attached(name)
        save_settings(self._services, state, replace(settings, collections=(*settings.collections, own)))
        return own
