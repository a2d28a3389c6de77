"""The chats of one database, for all threads. Each call is one short transaction, or several where it does much.

Most methods are functions of the modules beside this one, with a transaction around them: `chats.pin(3, True)` runs
`chat_table.pin(connection, 3, True)`.

Changes to a chat's messages take a `ChatVersion` and return the next one; everything else takes a chat's id. All
raise StoreError when the file fails, ChatNotFound for an unknown chat, and StaleChat for an outdated version.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from math import inf
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Concatenate, ParamSpec, TypeVar

from app.chats import (
    chat_settings,
    chat_table,
    deletion,
    draft_table,
    exporting,
    folder_table,
    forking,
    importing,
    message_paths,
    message_table,
    search,
    tree_changes,
)
from app.chats.export_format import ChatRecord
from app.database import Database
from app.errors import ChatNotFound, StoreError
from app.values.chat import ChatSettings, ChatVersion, ImportResult, MessageContent, WritingState
from app.values.display_text import title_of
from app.values.messages import Role

EVERYTHING = 2**31
EDITED = "Edited by you."
PURGE_SECONDS = 0.5
"""How long the end of the app may wait for what is left of deleted chats."""
PAUSE_SECONDS = 0.005
"""Seconds between two transactions of a deletion, so that others get the database."""
MOST_COMPACTED = 32 * 2**20
"""Bytes that may be left when the file is compacted: nobody can use it meanwhile. A larger one keeps its room."""

P = ParamSpec("P")
R = TypeVar("R")
OnConnection = Callable[Concatenate[sqlite3.Connection, P], R]


def reads(function: OnConnection[P, R]) -> Callable[Concatenate["Chats", P], R]:
    """A method that runs this function in a read transaction."""

    @wraps(function)
    def method(chats: "Chats", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with chats.database.reading() as connection:
            return function(connection, *args, **kwargs)

    return method


def writes(function: OnConnection[P, R]) -> Callable[Concatenate["Chats", P], R]:
    """A method that runs this function in a write transaction."""

    @wraps(function)
    def method(chats: "Chats", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with chats.database.writing() as connection:
            return function(connection, *args, **kwargs)

    return method


class Chats:
    """Chats, their messages, and presets."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        """`now` are seconds since 1970."""
        self.database = database
        self._now = now
        self._importing = Lock()
        self._progress = 0, 0

    @property
    def changes(self) -> int:
        """A counter that changes with every change in the database."""
        return self.database.changes

    # The sidebar

    summaries = reads(chat_table.summaries)
    folders = reads(folder_table.folders)
    in_folder = reads(folder_table.in_folder)
    search = reads(search.search)
    rename = writes(chat_table.rename)
    suggest_title = writes(chat_table.suggest_title)
    pin = writes(chat_table.pin)
    move = writes(chat_table.move)
    make_folder = writes(folder_table.make_folder)
    rename_folder = writes(folder_table.rename_folder)
    remove_folder = writes(folder_table.remove_folder)
    count_from = writes(chat_table.count_from)

    def create(self, settings: ChatSettings | None = None, folder: str = "", title: str = "") -> ChatVersion:
        """Creates a chat. Without a title it takes one from its first question."""
        columns = chat_settings.columns_of(settings or ChatSettings())
        with self.database.writing() as connection:
            return chat_table.create(connection, columns, folder, title, self._now())

    def begin(self, settings: ChatSettings, question: str) -> tuple[ChatVersion, int]:
        """Creates a chat with its first question and an empty reply, in one transaction. Returns the reply's id."""
        title, columns = title_of(question), chat_settings.columns_of(settings)
        with self.database.writing() as connection:
            version = chat_table.create(connection, columns, "", "", self._now())
            return tree_changes.ask(connection, version, question, None, self._now(), title)

    # Settings and presets

    settings = reads(chat_settings.settings)
    set_settings = writes(chat_settings.set_settings)
    used_collections = reads(chat_settings.used_collections)
    presets = reads(chat_settings.presets)
    save_preset = writes(chat_settings.save_preset)
    delete_preset = writes(chat_settings.delete_preset)

    # Drafts

    draft = reads(draft_table.draft)
    set_draft = writes(draft_table.set_draft)

    # Messages

    thread = reads(message_paths.thread)
    message = reads(message_paths.message)
    parent = reads(message_table.parent)
    path_texts = reads(message_paths.path_texts)
    texts_before = reads(message_paths.texts_before)
    path_ids = reads(message_paths.path_ids)
    write = writes(message_table.write)
    show = writes(tree_changes.show)
    is_writing = reads(message_table.is_writing)
    mark_interrupted = writes(message_table.mark_interrupted)

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
        with self.database.writing() as connection:
            return tree_changes.add(connection, version, role, content, parent, self._now(), title)

    def ask(self, version: ChatVersion, question: str, parent: int | None = None) -> tuple[ChatVersion, int]:
        """Adds a question and an empty reply in state "writing". Returns the reply's id."""
        title = title_of(question)
        with self.database.writing() as connection:
            return tree_changes.ask(connection, version, question, parent, self._now(), title)

    def regenerate(self, version: ChatVersion, message: int) -> tuple[ChatVersion, int]:
        """Adds an empty version of a reply in state "writing". Returns its id."""
        with self.database.writing() as connection:
            return tree_changes.regenerate(connection, version, message, self._now())

    def continue_reply(self, version: ChatVersion, message: int) -> ChatVersion:
        """Puts a reply back into state "writing". Its text stays."""
        with self.database.writing() as connection:
            return tree_changes.continue_reply(connection, version, message, self._now())

    def edit_reply(self, version: ChatVersion, message: int, text: str) -> ChatVersion:
        """Adds a version of a reply with the person's own text."""
        with self.database.writing() as connection:
            parent = message_table.parent(connection, message)
            sources = message_paths.message(connection, message).content.sources
            unchecked = sources and replace(sources, unsupported=())
            content = MessageContent(text, "done", EDITED, sources=unchecked)
            return tree_changes.add(connection, version, "assistant", content, parent, self._now(), "")[0]

    def fork(self, chat: int, message: int) -> ChatVersion:
        """Begins a new chat with the messages of this one down to a message."""
        return forking.fork(self.database, chat, message, self._now())

    # Deleting

    def remove(self, version: ChatVersion, message: int) -> ChatVersion:
        """Deletes a message with all that follows it."""
        with self.database.writing() as connection:
            removed = tree_changes.remove(connection, version, message, self._now())
        has_more = True
        while has_more:
            with self.database.writing() as connection:
                has_more = deletion.delete_some_removed(connection)
            sleep(PAUSE_SECONDS)
        return removed

    restore = writes(deletion.restore)

    def delete(self, chat: int) -> None:
        """Hides a chat until it is restored or erased."""
        with self.database.writing() as connection:
            deletion.delete(connection, chat, self._now())

    def purge(self, seconds: float = PURGE_SECONDS) -> bool:
        """Erases deleted chats, as far as `seconds` allow. Returns whether there is more to do."""
        with self.database.writing() as connection:
            deletion.claim(connection)
        return self.erase(seconds)

    def delete_all(self) -> None:
        """Erases all chats and returns their disk space. Presets stay."""
        with self.database.writing() as connection:
            deletion.claim_all(connection)
        self.erase(inf)
        with suppress(StoreError):  # the chats are gone even if there is no room to compact the file
            if self.database.used() <= MOST_COMPACTED:
                self.database.compact()

    def erase(self, seconds: float) -> bool:
        """Goes on erasing what `purge` began with. Returns whether there is more to do."""
        deadline, has_more = monotonic() + seconds, True
        while has_more and monotonic() < deadline:
            with self.database.writing() as connection:
                has_more = deletion.erase_some(connection)
            sleep(PAUSE_SECONDS)
        self.database.checkpoint()
        return has_more

    # Export, import, backup

    def export_json(self, chats: Iterable[int] | None = None) -> str:
        """These chats as JSON with everything; all chats and presets for None."""
        if chats is None:
            return "".join(self.export_parts())
        return "".join(
            exporting.archive_parts((exporting.record_of(self.database, chat) for chat in chats), ())
        )

    def export_parts(self) -> Iterator[str]:
        """All chats and presets as JSON, in parts that need not be in memory at once."""
        return exporting.archive_parts(self._records(), self.presets())

    def _records(self) -> Iterator[ChatRecord]:
        """All chats, each in its own transaction."""
        for summary in self.summaries():
            with suppress(ChatNotFound):  # deleted since
                yield exporting.record_of(self.database, summary.id)

    def export_markdown(self, chat: int) -> str:
        """The shown messages of a chat as Markdown."""
        return exporting.markdown(self.thread(chat, EVERYTHING))

    def import_json(self, text: str, report: importing.Report = lambda _done, _all: None) -> ImportResult:
        """Adds the chats of an exported file that are not here yet, under new ids. Raises ImportBroken."""

        def heard(done: int, total: int) -> None:
            self._progress = done, total
            report(done, total)

        with self._importing:  # of the same file twice, the second one finds all chats here
            try:
                return importing.import_file(self.database, text, self._now(), heard)
            finally:
                self._progress = 0, 0

    @property
    def import_progress(self) -> tuple[int, int]:
        """How many of how many chats are imported now; (0, 0) while nothing is."""
        return self._progress

    def backup(self, target: Path) -> None:
        """Copies the whole database into one file."""
        self.database.backup(target)

    def size(self) -> int:
        """The size of the database in bytes."""
        return self.database.size()
