"""What events of the sidebar do. They translate between the page and the stores, and nothing else."""

from collections.abc import Callable

import gradio as gr

from app.chat_messages import ChatVersion, ImportResult
from app.errors import AppError, ChatNotFound
from app.ui.chat.seat import Seat
from app.ui.error_handling import Notify, succeeded, try_or_notify
from app.ui.saving import file_html
from app.ui.services import Services
from app.ui.uploads import discard, upload_at

NOTHING = ""


class SidebarActions:
    """The events of the list of chats."""

    def __init__(self, services: Services, notify: Notify) -> None:
        self._services = services
        self._book = services.conversations.stores
        self._notify = notify
        self._deeds: dict[str, Callable[[Seat, int, str], None]] = {
            "rename": lambda _, chat, title: self._book.of(chat).rename(chat, title),
            "pin": lambda _, chat, __: self._book.of(chat).pin(chat, True),
            "unpin": lambda _, chat, __: self._book.of(chat).pin(chat, False),
            "move": self._move,
            "delete": self._delete,
            "undo": self._undo,
        }
        self._folder_deeds: dict[str, Callable[[Seat, str, str], None]] = {
            "fold": lambda seat, folder, _: _turn(seat, folder, False),
            "unfold": lambda seat, folder, _: _turn(seat, folder, True),
            "rename-folder": self._rename_folder,
        }

    def act(self, seat: Seat, event: gr.EventData) -> str:
        """Do what a button in the list says; the answer is a file to save, or nothing."""
        do, name, value = (str(event._data.get(key, "")) for key in ("do", "name", "value"))
        if do in self._folder_deeds:
            succeeded(self._notify, lambda: self._folder_deeds[do](seat, name, value))
            return NOTHING
        return try_or_notify(self._notify, lambda: self._do(seat, do, int(name or 0), value), NOTHING)

    def search(self, seat: Seat, words: str) -> None:
        """List the chats that have these words; none lists them all."""
        seat.words = words

    def bring(self, seat: Seat, path: str | None) -> None:
        """Take in the chats of a file that was saved before; the upload goes."""
        upload = try_or_notify(self._notify, lambda: upload_at(path), None) if path is not None else None
        if upload is None:
            return
        try:
            # Some editors put a mark before a text that they save.
            text = upload.read_text(encoding="utf-8-sig", errors="replace")
            taken = self._book.stored.import_json(text)
        except (AppError, OSError) as error:
            self._notify(str(error))
            return
        finally:
            discard(upload)
        seat.words = ""
        self._notify(taken_in(taken))

    def _do(self, seat: Seat, do: str, chat: int, value: str) -> str:
        if do in self._deeds:
            self._deeds[do](seat, chat, value)
        match do:
            case "open":
                seat.sit_at(ChatVersion(chat))
                self._services.chat = chat
            case "more":
                seat.listed += 500
            case "markdown":
                return self._markdown(chat)
            case "json":
                return file_html(
                    f"{self._title(chat)}.json", self._book.of(chat).export_json((chat,)), "application/json"
                )
        return NOTHING

    def _delete(self, seat: Seat, chat: int, _value: str) -> None:
        title = self._title(chat)
        self._book.of(chat).delete(chat)
        self._services.conversations.stop(chat)
        seat.deleted = (*seat.deleted, (chat, title))
        if self._services.chat == chat:
            self._services.chat = 0
        if seat.place.chat == chat:
            seat.begin()

    def _undo(self, seat: Seat, _chat: int, _value: str) -> None:
        """Bring back the chat that was deleted last; then the one before can be."""
        if not seat.deleted:
            raise ChatNotFound
        *before, (chat, _) = seat.deleted
        try:
            self._book.of(chat).restore(chat)
        except ChatNotFound:  # forgotten with all chats: it cannot be offered again
            seat.deleted = tuple(before)
            raise
        seat.deleted = tuple(before)

    def _move(self, seat: Seat, chat: int, folder: str) -> None:
        """Put a chat into a folder, which shows it there."""
        self._book.of(chat).move(chat, folder.strip())
        _turn(seat, folder.strip(), True)

    def _rename_folder(self, seat: Seat, old: str, new: str) -> None:
        self._book.stored.rename_folder(old, new)
        _turn(seat, new, seat.unfolded.get(old, False))

    def _markdown(self, chat: int) -> str:
        return file_html(
            f"{self._title(chat)}.md", self._book.of(chat).export_markdown(chat), "text/markdown"
        )

    def _title(self, chat: int) -> str:
        return next((line.title for line in self._book.summaries() if line.id == chat), "") or "New chat"


def _turn(seat: Seat, folder: str, is_unfolded: bool) -> None:
    seat.unfolded = {**seat.unfolded, folder: is_unfolded}


def taken_in(taken: ImportResult) -> str:
    """What came of a file, as a sentence."""
    new = "One chat was taken in" if taken.new == 1 else f"{taken.new:,} chats were taken in"
    if not taken.known:
        return f"{new}."
    return f"{new}; {'one was' if taken.known == 1 else f'{taken.known:,} were'} here already."
