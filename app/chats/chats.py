"""The chats of one database, for all threads: one short transaction a call.

What changes the messages of a chat takes a `ChatVersion` and returns the next one; everything else takes a
chat's id. All raise StoreError if the file fails, ChatNotFound for an unknown chat, and StaleChat for an
outdated version.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

from app.chat_messages import (
    ChatPreset,
    ChatSearchResult,
    ChatSettings,
    ChatSummary,
    ChatVersion,
    ImportResult,
    MessageContent,
    StoredMessage,
    Thread,
    WritingState,
)
from app.chats import exporting, importing, lines, messages, presets, search, threads, turns, undo
from app.chats.records import ChatRecord
from app.database import Database
from app.errors import ChatNotFound, StoreError
from app.messages import Message, Role
from app.titles import title_of

EVERYTHING = 2**31
PURGE_SECONDS = 0.5
"""How long the end of the app may wait for a large index of words."""


class Chats:
    """Chats, their messages, and presets to begin them with."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        """`now` are seconds since 1970."""
        self._database = database
        self._now = now

    @property
    def changes(self) -> int:
        """A count that differs once anything was changed here."""
        return self._database.changes

    # The sidebar

    def create(self, manner: ChatSettings | None = None, folder: str = "", title: str = "") -> ChatVersion:
        """Begin a chat; without a title it is called by its first question."""
        with self._database.writing() as connection:
            return lines.create(connection, manner or ChatSettings(), folder, title, self._now())

    def begin(self, manner: ChatSettings, question: str) -> tuple[ChatVersion, int]:
        """Begin a chat with its first question and an empty reply, at once or not at all; the reply's id."""
        title = title_of(question)
        with self._database.writing() as connection:
            place = lines.create(connection, manner, "", "", self._now())
            return turns.ask(connection, place, question, None, self._now(), title)

    def count_from(self, first: int) -> None:
        """Let ids of chats begin here, before there is a chat."""
        with self._database.writing() as connection:
            lines.count_from(connection, first)

    def lines(self) -> tuple[ChatSummary, ...]:
        """All chats, pinned ones first, then the last used."""
        with self._database.reading() as connection:
            return lines.lines(connection)

    def rename(self, chat: int, title: str) -> None:
        """Give a chat a title for good; "" calls it by its first question again."""
        with self._database.writing() as connection:
            lines.rename(connection, chat, title)

    def pin(self, chat: int, is_pinned: bool) -> None:
        """Keep a chat at the top, or no longer."""
        with self._database.writing() as connection:
            lines.pin(connection, chat, is_pinned)

    def move(self, chat: int, folder: str) -> None:
        """Put a chat into a folder, "" for none."""
        with self._database.writing() as connection:
            lines.move(connection, chat, folder)

    def folders(self) -> tuple[str, ...]:
        """The folders that have chats, by name."""
        with self._database.reading() as connection:
            return lines.folders(connection)

    def rename_folder(self, old: str, new: str) -> None:
        """Call a folder otherwise; "" takes its chats out of it."""
        with self._database.writing() as connection:
            lines.rename_folder(connection, old, new)

    def manner(self, chat: int) -> ChatSettings:
        """How the chat is answered."""
        with self._database.reading() as connection:
            return lines.manner(connection, chat)

    def set_manner(self, chat: int, manner: ChatSettings) -> None:
        """How the chat is answered from now on."""
        with self._database.writing() as connection:
            lines.set_manner(connection, chat, manner)

    def search(self, words: str, limit: int = 30) -> tuple[ChatSearchResult, ...]:
        """Chats with all these words in their title or in one message; the last word counts by its beginning."""
        with self._database.reading() as connection:
            return search.search(connection, words, limit)

    # Deleting

    def delete(self, chat: int) -> None:
        """Hide a chat until it is restored, or forgotten."""
        with self._database.writing() as connection:
            undo.delete(connection, chat, self._now())

    def restore(self, chat: int) -> None:
        """Bring a deleted chat back."""
        with self._database.writing() as connection:
            undo.restore(connection, chat)

    def purge(self, seconds: float = PURGE_SECONDS) -> None:
        """Forget deleted chats for good: what they say at once, the last traces of their words as far as that is
        done in so many seconds; the next call goes on there."""
        deadline, has_more = monotonic() + seconds, True
        with self._database.writing() as connection:
            undo.empty(connection)
        while has_more and monotonic() < deadline:
            with self._database.writing() as connection:
                has_more = undo.merge(connection)
        self._database.fold()

    def delete_all(self) -> None:
        """Forget all chats for good, and give their room on the disk back. Presets stay."""
        with self._database.writing() as connection:
            undo.delete_all(connection)
        with suppress(StoreError):  # the chats are gone, whether there is room to compact the file or not
            self._database.compact()

    # Messages

    def thread(self, chat: int, newest: int = 50) -> Thread:
        """The newest messages of the path that is shown."""
        with self._database.reading() as connection:
            return threads.thread(connection, chat, newest)

    def message(self, message: int) -> StoredMessage:
        """One message, shown or not."""
        with self._database.reading() as connection:
            return threads.message(connection, message)

    def parent(self, message: int) -> int:
        """The message above this one; 0 for a first one."""
        with self._database.reading() as connection:
            return messages.parent(connection, message)

    def path_texts(self, chat: int, upto: int | None = None) -> tuple[Message, ...]:
        """What the model reads to go on at a message (default: the shown leaf); no system prompt.

        Replies that failed or stayed empty are left out with their questions; an empty last reply is to be
        written, and left out alone."""
        with self._database.reading() as connection:
            return threads.path_texts(connection, chat, upto)

    def texts_before(self, chat: int, upto: int | None = None) -> tuple[Message, ...]:
        """What the model reads before a new question below a message (default: the shown leaf)."""
        with self._database.reading() as connection:
            return threads.texts_before(connection, chat, upto)

    def path_ids(self, chat: int, upto: int) -> tuple[int, ...]:
        """The ids of the messages of `path_texts`."""
        with self._database.reading() as connection:
            return threads.path_ids(connection, chat, upto)

    def add(
        self,
        place: ChatVersion,
        role: Role,
        text: str,
        state: WritingState = "done",
        parent: int | None = None,
    ) -> tuple[ChatVersion, int]:
        """Append a message below the shown leaf, or below `parent` (0: as a first one); its id."""
        written, title = MessageContent(text, state), title_of(text)
        with self._database.writing() as connection:
            return turns.add(connection, place, role, written, parent, self._now(), title)

    def ask(self, place: ChatVersion, question: str, parent: int | None = None) -> tuple[ChatVersion, int]:
        """Add a question and an empty reply in state "writing", both on the disk; the reply's id."""
        title = title_of(question)
        with self._database.writing() as connection:
            return turns.ask(connection, place, question, parent, self._now(), title)

    def answer_anew(self, place: ChatVersion, message: int) -> tuple[ChatVersion, int]:
        """Add an empty version of a reply, in state "writing"; its id."""
        with self._database.writing() as connection:
            return turns.answer_anew(connection, place, message, self._now())

    def continue_(self, place: ChatVersion, message: int) -> ChatVersion:
        """Put a reply back into state "writing"; its text stays."""
        with self._database.writing() as connection:
            return turns.go_on(connection, place, message, self._now())

    def write(self, message: int, written: MessageContent) -> None:
        """Replace what a message has come to; the chat's version stays. A message that is gone stays gone, and one
        that is complete is not taken back to "writing"."""
        with self._database.writing() as connection:
            messages.write(connection, message, written)

    def show(self, place: ChatVersion, message: int) -> ChatVersion:
        """Show this version of a message, and the newest of what follows it."""
        with self._database.writing() as connection:
            return turns.show(connection, place, message)

    def interrupted(self) -> None:
        """Say of each reply that was being written that nobody writes it any more. To be called at start."""
        with self._database.writing() as connection:
            messages.interrupt(connection)

    # Presets

    def presets(self) -> tuple[ChatPreset, ...]:
        """All presets, by name."""
        with self._database.reading() as connection:
            return presets.presets(connection)

    def save_preset(self, preset: ChatPreset) -> None:
        """Keep a preset; one of the same name is replaced."""
        with self._database.writing() as connection:
            presets.save_preset(connection, preset)

    def delete_preset(self, name: str) -> None:
        """Drop a preset, if it is there."""
        with self._database.writing() as connection:
            presets.delete_preset(connection, name)

    # Out and in

    def export_json(self, chats: Iterable[int] | None = None) -> str:
        """These chats with everything about them; all chats and presets for None."""
        if chats is None:
            return "".join(self.export_parts())
        return "".join(exporting.library_parts(map(self._record, chats), ()))

    def export_parts(self) -> Iterator[str]:
        """The file of all chats and presets in parts, of which no two need be in memory at once."""
        return exporting.library_parts(self._records(), self.presets())

    def _records(self) -> Iterator[ChatRecord]:
        """All chats, one by one: the app may go on between them."""
        for line in self.lines():
            with suppress(ChatNotFound):  # deleted since
                yield self._record(line.id)

    def _record(self, chat: int) -> ChatRecord:
        with self._database.reading() as connection:
            return exporting.record_of(connection, chat)

    def export_markdown(self, chat: int) -> str:
        """What is shown of a chat, as a text to read."""
        return exporting.markdown(self.thread(chat, EVERYTHING))

    def import_json(self, text: str) -> ImportResult:
        """Add the chats of an exported file that are not here, under new ids. Raises ImportBroken."""
        library = importing.library_of(text)
        with self._database.writing() as connection:
            return importing.put_in(connection, library, self._now())

    def backup(self, target: Path) -> None:
        """Copy the whole database into one file."""
        self._database.backup(target)

    def size(self) -> int:
        """Bytes that the database takes."""
        return self._database.size()
