"""The chats of one database, for all threads. Each call is one short transaction.

Changes to a chat's messages take a `ChatVersion` and return the next one; everything else takes a chat's id. All
raise StoreError when the file fails, ChatNotFound for an unknown chat, and StaleChat for an outdated version.
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
from app.chats import (
    chat_settings,
    chat_table,
    deletion,
    exporting,
    importing,
    message_paths,
    message_table,
    search,
    tree_changes,
)
from app.chats.export_format import ChatRecord
from app.database import Database
from app.display_text import title_of
from app.errors import ChatNotFound, StoreError
from app.messages import Message, Role

EVERYTHING = 2**31
PURGE_SECONDS = 0.5
"""How long the end of the app may wait for a large full-text index."""


class Chats:
    """Chats, their messages, and presets."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        """`now` are seconds since 1970."""
        self._database = database
        self._now = now

    @property
    def changes(self) -> int:
        """A counter that changes with every change in the database."""
        return self._database.changes

    # The sidebar

    def create(self, settings: ChatSettings | None = None, folder: str = "", title: str = "") -> ChatVersion:
        """Creates a chat. Without a title it takes one from its first question."""
        columns = chat_settings.columns_of(settings or ChatSettings())
        with self._database.writing() as connection:
            return chat_table.create(connection, columns, folder, title, self._now())

    def begin(self, settings: ChatSettings, question: str) -> tuple[ChatVersion, int]:
        """Creates a chat with its first question and an empty reply, in one transaction. Returns the reply's id."""
        title, columns = title_of(question), chat_settings.columns_of(settings)
        with self._database.writing() as connection:
            version = chat_table.create(connection, columns, "", "", self._now())
            return tree_changes.ask(connection, version, question, None, self._now(), title)

    def count_from(self, first: int) -> None:
        """Sets the id of the first chat, before there is one."""
        with self._database.writing() as connection:
            chat_table.count_from(connection, first)

    def summaries(self) -> tuple[ChatSummary, ...]:
        """All chats: pinned ones first, then by their last use."""
        with self._database.reading() as connection:
            return chat_table.summaries(connection)

    def rename(self, chat: int, title: str) -> None:
        """Gives a chat a title for good; with "" its first question is its title again."""
        with self._database.writing() as connection:
            chat_table.rename(connection, chat, title)

    def pin(self, chat: int, is_pinned: bool) -> None:
        """Pins a chat to the top of the list, or unpins it."""
        with self._database.writing() as connection:
            chat_table.pin(connection, chat, is_pinned)

    def move(self, chat: int, folder: str) -> None:
        """Moves a chat into a folder, "" for none."""
        with self._database.writing() as connection:
            chat_table.move(connection, chat, folder)

    def folders(self) -> tuple[str, ...]:
        """The folders that have chats, by name."""
        with self._database.reading() as connection:
            return chat_table.folders(connection)

    def rename_folder(self, old: str, new: str) -> None:
        """Renames a folder; "" moves its chats out of it."""
        with self._database.writing() as connection:
            chat_table.rename_folder(connection, old, new)

    def settings(self, chat: int) -> ChatSettings:
        """The chat's settings."""
        with self._database.reading() as connection:
            return chat_settings.settings(connection, chat)

    def set_settings(self, chat: int, settings: ChatSettings) -> None:
        """Replaces the chat's settings."""
        with self._database.writing() as connection:
            chat_settings.set_settings(connection, chat, settings)

    def search(self, words: str, limit: int = 30) -> tuple[ChatSearchResult, ...]:
        """Chats with all these words in their title or in one message. The last word matches as a prefix."""
        with self._database.reading() as connection:
            return search.search(connection, words, limit)

    # Deleting

    def delete(self, chat: int) -> None:
        """Hides a chat until it is restored or erased."""
        with self._database.writing() as connection:
            deletion.delete(connection, chat, self._now())

    def restore(self, chat: int) -> None:
        """Restores a deleted chat."""
        with self._database.writing() as connection:
            deletion.restore(connection, chat)

    def purge(self, seconds: float = PURGE_SECONDS) -> None:
        """Erases deleted chats: their messages at once, their words in the index as far as `seconds` allow. The
        next call continues there."""
        deadline, has_more = monotonic() + seconds, True
        with self._database.writing() as connection:
            deletion.empty(connection)
        while has_more and monotonic() < deadline:
            with self._database.writing() as connection:
                has_more = deletion.merge(connection)
        self._database.checkpoint()

    def delete_all(self) -> None:
        """Erases all chats and returns their disk space. Presets stay."""
        with self._database.writing() as connection:
            deletion.delete_all(connection)
        with suppress(StoreError):  # the chats are gone even if there is no room to compact the file
            self._database.compact()

    # Messages

    def thread(self, chat: int, newest: int = 50) -> Thread:
        """The newest messages of the shown path."""
        with self._database.reading() as connection:
            return message_paths.thread(connection, chat, newest)

    def message(self, message: int) -> StoredMessage:
        """One message, shown or not."""
        with self._database.reading() as connection:
            return message_paths.message(connection, message)

    def parent(self, message: int) -> int:
        """The parent message; 0 for a first message."""
        with self._database.reading() as connection:
            return message_table.parent(connection, message)

    def path_texts(self, chat: int, upto: int | None = None) -> tuple[Message, ...]:
        """What the model reads down to a message (default: the shown leaf), without the system prompt.

        Replies that failed or stayed empty are left out with their questions. An empty last reply is to be written:
        it is left out, and its question stays."""
        with self._database.reading() as connection:
            return message_paths.path_texts(connection, chat, upto)

    def texts_before(self, chat: int, upto: int | None = None) -> tuple[Message, ...]:
        """What the model reads before a new question below a message (default: the shown leaf)."""
        with self._database.reading() as connection:
            return message_paths.texts_before(connection, chat, upto)

    def path_ids(self, chat: int, upto: int) -> tuple[int, ...]:
        """The ids of the messages of `path_texts`."""
        with self._database.reading() as connection:
            return message_paths.path_ids(connection, chat, upto)

    def add(
        self,
        version: ChatVersion,
        role: Role,
        text: str,
        state: WritingState = "done",
        parent: int | None = None,
    ) -> tuple[ChatVersion, int]:
        """Adds a message below the shown leaf, or below `parent` (0: as a first message). Returns its id."""
        content, title = MessageContent(text, state), title_of(text)
        with self._database.writing() as connection:
            return tree_changes.add(connection, version, role, content, parent, self._now(), title)

    def ask(self, version: ChatVersion, question: str, parent: int | None = None) -> tuple[ChatVersion, int]:
        """Adds a question and an empty reply in state "writing". Returns the reply's id."""
        title = title_of(question)
        with self._database.writing() as connection:
            return tree_changes.ask(connection, version, question, parent, self._now(), title)

    def regenerate(self, version: ChatVersion, message: int) -> tuple[ChatVersion, int]:
        """Adds an empty version of a reply in state "writing". Returns its id."""
        with self._database.writing() as connection:
            return tree_changes.regenerate(connection, version, message, self._now())

    def continue_reply(self, version: ChatVersion, message: int) -> ChatVersion:
        """Puts a reply back into state "writing". Its text stays."""
        with self._database.writing() as connection:
            return tree_changes.continue_reply(connection, version, message, self._now())

    def write(self, message: int, content: MessageContent) -> None:
        """Replaces what a message says; the chat's version stays. A deleted message stays deleted, and a complete
        one is not put back into state "writing"."""
        with self._database.writing() as connection:
            message_table.write(connection, message, content)

    def show(self, version: ChatVersion, message: int) -> ChatVersion:
        """Shows this version of a message, and the newest of what follows."""
        with self._database.writing() as connection:
            return tree_changes.show(connection, version, message)

    def mark_interrupted(self) -> None:
        """Marks each reply in state "writing" as interrupted. To be called at the start of the app."""
        with self._database.writing() as connection:
            message_table.interrupt(connection)

    # Presets

    def presets(self) -> tuple[ChatPreset, ...]:
        """All presets, by name."""
        with self._database.reading() as connection:
            return chat_settings.presets(connection)

    def save_preset(self, preset: ChatPreset) -> None:
        """Saves a preset; one of the same name is replaced."""
        with self._database.writing() as connection:
            chat_settings.save_preset(connection, preset)

    def delete_preset(self, name: str) -> None:
        """Deletes a preset, if it is there."""
        with self._database.writing() as connection:
            chat_settings.delete_preset(connection, name)

    # Export, import, backup

    def export_json(self, chats: Iterable[int] | None = None) -> str:
        """These chats as JSON with everything; all chats and presets for None."""
        if chats is None:
            return "".join(self.export_parts())
        return "".join(exporting.archive_parts(map(self._record, chats), ()))

    def export_parts(self) -> Iterator[str]:
        """All chats and presets as JSON, in parts that need not be in memory at once."""
        return exporting.archive_parts(self._records(), self.presets())

    def _records(self) -> Iterator[ChatRecord]:
        """All chats, each in its own transaction."""
        for summary in self.summaries():
            with suppress(ChatNotFound):  # deleted since
                yield self._record(summary.id)

    def _record(self, chat: int) -> ChatRecord:
        with self._database.reading() as connection:
            return exporting.record_of(connection, chat)

    def export_markdown(self, chat: int) -> str:
        """The shown messages of a chat as Markdown."""
        return exporting.markdown(self.thread(chat, EVERYTHING))

    def import_json(self, text: str) -> ImportResult:
        """Adds the chats of an exported file that are not here yet, under new ids. Raises ImportBroken."""
        archive = importing.parse_archive(text)
        with self._database.writing() as connection:
            return importing.add_archive(connection, archive, self._now())

    def backup(self, target: Path) -> None:
        """Copies the whole database into one file."""
        self._database.backup(target)

    def size(self) -> int:
        """The size of the database in bytes."""
        return self._database.size()
