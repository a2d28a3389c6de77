"""The stores of chats: saved chats in a file, and private chats in memory. Safe to use from any thread.

Most methods with which the user changes a chat's messages take a `ChatVersion`, raise StaleChat if that version is
outdated, and return the next version. Most methods that are given a chat or a message raise ChatNotFound if it does
not exist. All methods raise StoreError if the file cannot be read or written."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from math import inf
from threading import Lock
from time import monotonic, sleep

from app.chats import chat_table, deletion, exporting, importing, message_paths, message_table, search
from app.database.database import Database, Store, reads, writes, writes_now, writes_unnoticed
from app.errors import ChatNotFound, StoreError
from app.values.chat import ChatSummary, ChatVersion, ImportResult

EVERYTHING = 2**31
PURGE_SECONDS = 0.5
"""Seconds that erasing deleted chats may take when the app starts, and when it ends."""
PAUSE_SECONDS = 0.005
"""Seconds between two transactions of a deletion, so that other threads get the database."""
MOST_COMPACTED = 32 * 2**20
"""The file is compacted only if at most this many bytes are in use. Compacting a larger file would block the
database for too long."""
FIRST_PRIVATE = 2**40
"""Ids of private chats begin here."""


class Chats(Store):
    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        super().__init__(database, now)
        self._importing = Lock()
        self._progress = 0, 0

    # The sidebar

    summaries = reads(chat_table.summaries)
    folders = reads(chat_table.folders)
    in_folder = reads(chat_table.in_folder)
    search = reads(search.search)
    create = writes_now(chat_table.create)
    begin = writes_now(message_paths.begin)
    rename = writes(chat_table.rename)
    suggest_title = writes(chat_table.suggest_title)
    pin = writes(chat_table.pin)
    move = writes(chat_table.move)
    make_folder = writes(chat_table.make_folder)
    rename_folder = writes(chat_table.rename_folder)
    remove_folder = writes(chat_table.remove_folder)
    count_from = writes(chat_table.count_from)

    # Settings, presets, drafts

    settings = reads(chat_table.settings)
    change_settings = writes(chat_table.change_settings)
    used_collections = reads(chat_table.used_collections)
    presets = reads(chat_table.presets)
    save_preset = writes(chat_table.save_preset)
    delete_preset = writes(chat_table.delete_preset)
    draft = reads(chat_table.draft)
    set_draft = writes_unnoticed(chat_table.set_draft)
    queued = reads(chat_table.queued)
    add_queued = writes(chat_table.add_queued)
    replace_queued = writes(chat_table.replace_queued)
    advance_queued = writes(chat_table.advance_queued)

    # Messages

    thread = reads(message_paths.thread)
    count_shown_from = reads(message_paths.count_from)
    message = reads(message_paths.message)
    parent = reads(message_table.parent)
    path_texts = reads(message_paths.path_texts)
    texts_before = reads(message_paths.texts_before)
    path_ids = reads(message_paths.path_ids)
    add = writes_now(message_paths.add)
    ask = writes_now(message_paths.ask)
    regenerate = writes_now(message_paths.regenerate)
    continue_reply = writes_now(message_paths.continue_reply)
    edit_reply = writes_now(message_paths.edit_reply)
    write = writes(message_table.write)
    summarise = writes(message_table.summarise)
    show = writes(message_paths.show)
    is_writing = reads(message_table.is_writing)
    mark_interrupted = writes(message_table.mark_interrupted)

    def fork(self, chat: int, message: int) -> ChatVersion:
        """Creates a new chat with this chat's messages down to the given message. Raises ChatNotFound."""
        return importing.fork(self.database, chat, message, self.now())

    # Deleting

    delete = writes_now(deletion.delete)
    restore = writes(deletion.restore)
    remove = writes(message_paths.remove)
    put_back = writes(message_paths.put_back)

    def purge(self, seconds: float = PURGE_SECONDS) -> bool:
        """Erases deleted chats and messages for about `seconds`. None of them can be restored afterwards.

        Returns whether there is more to do."""
        with self.database.writing() as connection:
            deletion.claim(connection)
        return self.erase(seconds)

    def delete_all(self) -> None:
        """Erases all chats, folders and drafts, but no presets.

        Compacts the file, unless more than MOST_COMPACTED bytes stay in use."""
        with self.database.writing() as connection:
            deletion.claim_all(connection)
        self.erase(inf)
        with suppress(StoreError):  # the chats are gone even if there is no room to compact the file
            if self.database.used() <= MOST_COMPACTED:
                self.database.compact()

    def erase(self, seconds: float) -> bool:
        """Continues to erase deleted chats for about `seconds`. Returns whether there is more to do."""
        deadline, has_more = monotonic() + seconds, True
        while has_more and monotonic() < deadline:
            with self.database.writing() as connection:
                has_more = deletion.erase_some(connection)
            sleep(PAUSE_SECONDS)
        self.database.checkpoint()
        return has_more

    # Export and import

    def export_json(self, chats: Iterable[int] | None = None) -> str:
        """Returns these chats as JSON without presets; None means all chats and presets."""
        if chats is None:
            return "".join(self.export_parts())
        records = (exporting.record_of(self.database, chat) for chat in chats)
        return "".join(exporting.archive_parts(records, ()))

    def export_parts(self) -> Iterator[str]:
        """Returns all chats and presets as JSON, in parts that need not be in memory at once."""

        def records() -> Iterator[exporting.ChatRecord]:
            for summary in self.summaries():
                with suppress(ChatNotFound):  # deleted in the meantime
                    yield exporting.record_of(self.database, summary.id)

        return exporting.archive_parts(records(), self.presets())

    def export_markdown(self, chat: int) -> str:
        return exporting.markdown(self.thread(chat, EVERYTHING))

    def import_json(self, text: str, report: importing.Report = lambda _done, _all: None) -> ImportResult:
        """Adds an exported file's presets, and its chats that are not stored yet. Raises ImportBroken."""

        def note_progress(done: int, total: int) -> None:
            self._progress = done, total
            report(done, total)

        with self._importing:  # so that a second import of the same file finds all its chats stored
            try:
                return importing.import_file(self.database, text, self.now(), note_progress)
            finally:
                self._progress = 0, 0

    @property
    def import_progress(self) -> tuple[int, int]:
        """The number of chats imported so far and the total; (0, 0) if no import runs."""
        return self._progress


class ChatStores:
    """The stores of saved and of private chats; a chat's id determines its store. Safe to use from any thread."""

    def __init__(self, stored: Chats, private: Chats) -> None:
        """Takes both stores. `private` must be empty; its ids are set to begin at FIRST_PRIVATE."""
        self.stored = stored
        self.private = private
        private.count_from(FIRST_PRIVATE)

    @property
    def changes(self) -> tuple[int, int]:
        return self.stored.changes, self.private.changes

    def of(self, chat: int) -> Chats:
        return self.private if is_private(chat) else self.stored

    def delete_all(self) -> None:
        """Deletes all chats, also private ones, so that they cannot be restored."""
        self.private.delete_all()
        self.stored.delete_all()

    def summaries(self) -> tuple[ChatSummary, ...]:
        """Lists all chats, private chats first."""
        return (*self.private.summaries(), *self.stored.summaries())


def is_private(chat: int) -> bool:
    return chat >= FIRST_PRIVATE
