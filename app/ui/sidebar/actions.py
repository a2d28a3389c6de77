"""What events of the sidebar do. They translate between the page and the stores, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import gradio as gr

from app.chat_messages import Place, TakenIn
from app.errors import AppError
from app.ui.chat.seat import Seat
from app.ui.desk import Desk
from app.ui.saving import file_html
from app.ui.telling import RELOAD, Say, attempt
from app.ui.uploads import discard

NOTHING = ""


class SidebarActions:
    """The events of the list of chats."""

    def __init__(self, desk: Desk, say: Say) -> None:
        self._desk = desk
        self._book = desk.conversations.book
        self._say = say
        self._deeds: dict[str, Callable[[int, str], None]] = {
            "rename": lambda chat, title: self._book.of(chat).rename(chat, title),
            "pin": lambda chat, _: self._book.of(chat).pin(chat, True),
            "unpin": lambda chat, _: self._book.of(chat).pin(chat, False),
            "move": lambda chat, folder: self._book.of(chat).move(chat, folder.strip()),
        }

    def act(self, seat: Seat, event: gr.EventData) -> str:
        """Do what a button in the list says; the answer is a file to save, or nothing."""
        if not seat.is_taken:
            self._say(RELOAD)
            return NOTHING
        do, name, value = (str(event._data.get(key, "")) for key in ("do", "name", "value"))
        return attempt(self._say, lambda: self._do(seat, do, int(name or 0), value), NOTHING)

    def search(self, seat: Seat, words: str) -> None:
        """List the chats that have these words; none lists them all."""
        seat.words = words

    def bring(self, seat: Seat, path: str | None) -> None:
        """Take in the chats of a file that was saved before; the upload goes."""
        if path is None:
            return
        try:
            # Some editors put a mark before a text that they save.
            text = Path(path).read_text(encoding="utf-8-sig", errors="replace")
            taken = self._book.stored.import_json(text)
        except (AppError, OSError) as error:
            self._say(str(error))
            return
        finally:
            discard(Path(path))
        seat.words = ""
        self._say(taken_in(taken))

    def _do(self, seat: Seat, do: str, chat: int, value: str) -> str:
        if do in self._deeds:
            self._deeds[do](chat, value)
        match do:
            case "open":
                seat.sit_at(Place(chat))
                self._desk.chat = chat
            case "more":
                seat.listed += 500
            case "delete":
                self._delete(seat, chat)
            case "undo":
                self._book.of(seat.deleted).restore(seat.deleted)
                seat.deleted, seat.deleted_title = 0, ""
            case "markdown":
                return self._markdown(chat)
            case "json":
                return file_html(
                    f"{self._title(chat)}.json", self._book.of(chat).export_json((chat,)), "application/json"
                )
        return NOTHING

    def _delete(self, seat: Seat, chat: int) -> None:
        title = self._title(chat)
        self._book.of(chat).delete(chat)
        self._desk.conversations.stop(chat)
        seat.deleted, seat.deleted_title = chat, title
        if self._desk.chat == chat:
            self._desk.chat = 0
        if seat.place.chat == chat:
            seat.begin()

    def _markdown(self, chat: int) -> str:
        return file_html(
            f"{self._title(chat)}.md", self._book.of(chat).export_markdown(chat), "text/markdown"
        )

    def _title(self, chat: int) -> str:
        return next((line.title for line in self._book.lines() if line.id == chat), "") or "New chat"


def taken_in(taken: TakenIn) -> str:
    """What came of a file, as a sentence."""
    new = "One chat was taken in" if taken.new == 1 else f"{taken.new:,} chats were taken in"
    if not taken.known:
        return f"{new}."
    return f"{new}; {'one was' if taken.known == 1 else f'{taken.known:,} were'} here already."
