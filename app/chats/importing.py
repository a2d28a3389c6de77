"""Writes new chats with all their messages: imported from a file, or forked from another chat.

Chats are written in short transactions, so that other work need not wait. Each new chat is hidden, like a deleted
chat, until its last message is stored. If the process is killed, the next start erases the hidden chat, and
importing the file again adds the missing chats."""

import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from app.chats.archive_reading import open_archive
from app.chats.chat_table import (
    columns_of,
    create_with,
    one_line,
    presets,
    require_chat,
    save_preset,
    set_title,
    unused_title,
)
from app.chats.exporting import ChatRecord, MessageRecord, message_record
from app.chats.message_table import (
    INTERRUPTED,
    ROOT,
    insert,
    messages_of,
    require_in,
    rows_of,
    stored_of,
    tree_of,
)
from app.database.database import Database
from app.errors import ChatNotFound, ImportBroken
from app.values.chat import ChatPreset, ChatSettings, ChatVersion, ImportResult
from app.values.display_text import numbered
from app.values.text_normalisation import storable

PIECE = 100_000
"""Approximate number of characters that are written in one transaction."""
STEP = 1_000
"""Characters that are added to the length of each step's text, because a step without text takes time, too."""
READ_AT_ONCE = 50
"""Chats whose messages are read in one transaction."""
LEAST_PAUSE = 0.005
"""Minimum number of seconds between two transactions, so that other threads get the database meanwhile."""
NO_MESSAGE = hash(())
CREATED_AT = "SELECT id FROM chat WHERE created = ? AND deleted IS NULL"
INTERRUPTED_IMPORT = (
    "The import was interrupted, because Foresight was started or ended, or all chats were deleted meanwhile. "
    "Import the file again; chats that were imported already are skipped."
)
Step = Callable[[sqlite3.Connection], None]
WeightedStep = tuple[int, Step]
"""The number of characters that a step writes, and the step."""
Create = Callable[[sqlite3.Connection], ChatVersion]
Complete = Callable[[sqlite3.Connection, int], int]
"""Writes the rest of a new chat's row. Returns the id that the shown message has in its MessageRecord."""
Report = Callable[[int, int], None]
"""A function that is called with the number of chats done so far and the total."""


def import_file(database: Database, text: str, now: float, report: Report) -> ImportResult:
    """Adds the chats of a file that are not stored yet, and its presets. Raises ImportBroken."""
    file = open_archive(text)
    with database.writing() as connection:
        _add_presets(connection, file.presets)
    return add_chats(database, file.chats(), now, lambda done: report(done, len(file.starts)))


def add_chats(
    database: Database, records: Iterable[ChatRecord | None], now: float, report: Callable[[int], None]
) -> ImportResult:
    """Adds the chats that are not stored yet. Raises ImportBroken if the chat being written is erased meanwhile."""
    known, numbers = _KnownChats(database), {True: 0, False: 0}

    def steps() -> Iterator[WeightedStep]:
        for done, record in enumerate(records):
            report(done)
            if record is None:
                continue
            is_new = not known.has(record)
            numbers[is_new] += 1
            if is_new:
                yield from _imported_chat(record, now).steps()

    try:
        _write_in_pieces(database, steps())
    except ChatNotFound as error:
        raise ImportBroken(INTERRUPTED_IMPORT) from error
    return ImportResult(numbers[True], numbers[False])


def fork(database: Database, chat: int, message: int, now: float) -> ChatVersion:
    """Copies a chat's settings, and its messages down to this one, into a new chat. Raises ChatNotFound."""
    with database.reading() as connection:
        row = require_chat(connection, chat)
        tree = tree_of(connection, chat)
        require_in(tree, message)
        path = tree.path_to(message)
        rows = rows_of(connection, list(path))
    pairs = zip(stored_of(rows, path, tree), (ROOT, *path), strict=False)
    messages = [message_record(one, parent) for one, parent in pairs]
    messages = [replace(one, state="stopped") if one.state == "writing" else one for one in messages]

    def create(connection: sqlite3.Connection) -> ChatVersion:
        settings = (row["system"], row["sampling"], row["collections"], row["json_answers"], row["tools"])
        title = unused_title(connection, row["title"])
        version = create_with(connection, now, settings, row["folder"], title)
        connection.execute("UPDATE chat SET forked_from = ? WHERE id = ?", (chat, version.chat))
        return version

    new = _NewChat(create, messages, lambda _connection, _chat: message)
    _write_in_pieces(database, new.steps())
    return ChatVersion(new.chat)


def _add_presets(connection: sqlite3.Connection, added: Iterable[ChatPreset]) -> None:
    """Adds presets. If a different preset has the same name, a number is added to the name."""
    taken = {preset.name: preset.settings for preset in presets(connection)}
    for preset in added:
        names = numbered(one_line(preset.name))
        name = next(one for one in names if taken.get(one, preset.settings) == preset.settings)
        if name and name not in taken:
            taken[name] = preset.settings
            save_preset(connection, replace(preset, name=name))


def _write_in_pieces(database: Database, steps: Iterable[WeightedStep]) -> None:
    """Runs these steps in transactions of about PIECE characters each."""
    piece, weight = list[Step](), 0
    for characters, step in steps:
        if piece and weight + characters > PIECE:
            _write(database, piece)
            piece, weight = [], 0
        piece.append(step)
        weight += characters + STEP
    _write(database, piece)


def _write(database: Database, piece: Sequence[Step]) -> None:
    begin = time.monotonic()
    with database.writing() as connection:
        for step in piece:
            step(connection)
    # Another process polls for the lock, so the pause must be long enough for it to get the lock.
    time.sleep(max(LEAST_PAUSE, (time.monotonic() - begin) / 2))


class _NewChat:
    """Writes a chat that stays hidden until its last message is stored.

    Its steps raise ChatNotFound if the chat is erased meanwhile, which happens when the app starts or ends."""

    def __init__(self, create: Create, messages: Sequence[MessageRecord], complete: Complete) -> None:
        """Prepares the steps. `create` adds the chat's row, and `complete` writes the rest of it at the end."""
        self.chat = 0
        self._create, self._messages, self._complete = create, messages, complete
        self._ids: dict[int, int] = {}
        """The id of each stored message by the id in its MessageRecord."""

    def steps(self) -> Iterator[WeightedStep]:
        """Yields all steps that write the chat, in order, with the characters that they write."""
        yield 0, self._create_hidden
        for message in self._messages:
            yield len(message.text), partial(self._put, message)
        yield 0, self._show

    def _create_hidden(self, connection: sqlite3.Connection) -> None:
        self.chat = self._create(connection).chat
        connection.execute("UPDATE chat SET deleted = 1 WHERE id = ?", (self.chat,))

    def _put(self, message: MessageRecord, connection: sqlite3.Connection) -> None:
        """Adds a message. A message of an unknown parent becomes a first message."""
        self._require_hidden(connection)
        parent = self._ids.get(message.parent, ROOT)
        self._ids[message.id] = insert(
            connection, self.chat, parent, message.role, message.content, message.created
        )

    def _show(self, connection: sqlite3.Connection) -> None:
        self._require_hidden(connection)
        shown = self._ids.get(self._complete(connection, self.chat))
        leaf = shown or tree_of(connection, self.chat).newest_below(ROOT)
        connection.execute("UPDATE chat SET shown = ?, deleted = NULL WHERE id = ?", (leaf, self.chat))

    def _require_hidden(self, connection: sqlite3.Connection) -> None:
        hidden = connection.execute("SELECT 1 FROM chat WHERE id = ? AND deleted = 1", (self.chat,))
        if hidden.fetchone() is None:
            raise ChatNotFound


def _imported_chat(record: ChatRecord, now: float) -> _NewChat:
    """Prepares the steps that write a chat of an exported file."""

    def create(connection: sqlite3.Connection) -> ChatVersion:
        settings = columns_of(ChatSettings(record.system, record.sampling, (), record.json_answers))
        return create_with(connection, record.created, settings, "", "")

    def complete(connection: sqlite3.Connection, chat: int) -> int:
        set_title(connection, chat, one_line(record.title), record.is_named)
        # An impossible date, such as a date in milliseconds, is replaced by now.
        updated = record.updated if 0 <= record.updated <= now else now
        connection.execute(
            "UPDATE chat SET folder = ?, is_pinned = ?, updated = ? WHERE id = ?",
            (one_line(record.folder), record.is_pinned, updated, chat),
        )
        return record.shown

    return _NewChat(create, [_imported(message) for message in record.messages], complete)


def _imported(message: MessageRecord) -> MessageRecord:
    """Removes references to documents of another database, and marks an unfinished reply as interrupted."""
    if sources := message.sources:
        cited = tuple(replace(one, document=0) for one in sources.cited)
        message = replace(message, sources=replace(sources, cited=cited))
    is_cut = message.state == "writing"
    return replace(message, state="interrupted", note=INTERRUPTED) if is_cut else message


class _KnownChats:
    """Finds chats of a file that are stored already.

    Stored chats are read once for each creation time, because in some files all chats have the same time. Each
    existing chat matches only one chat of the file, so that two chats with the same text are both added."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._with_message: dict[float, dict[int, set[int]]] = {}
        self._lengths: dict[float, dict[int, int]] = {}

    def has(self, record: ChatRecord) -> bool:
        """Returns whether an existing chat of the same creation time has all messages of the record.

        That chat is not matched again."""
        if record.created not in self._lengths:
            self._read(record.created)
        with_message = self._with_message[record.created]
        wanted = {hash((one.role, storable(one.text), one.created)) for one in record.messages}
        sets = sorted((with_message.get(one, set()) for one in wanted or {NO_MESSAGE}), key=len)
        found = self._nearest(record, sets)
        for each in sets:
            each.discard(found)
        return bool(found)

    def _nearest(self, record: ChatRecord, sets: Sequence[set[int]]) -> int:
        """Returns the chat that is in all sets and has the fewest other messages; 0 if there is none."""
        nearest, lengths = 0, self._lengths[record.created]
        for chat in sets[0]:
            if all(chat in each for each in sets) and (not nearest or lengths[chat] < lengths[nearest]):
                nearest = chat
                if lengths[nearest] == len(record.messages):
                    break
        return nearest

    def _read(self, created: float) -> None:
        with_message: dict[int, set[int]] = defaultdict(set)
        self._with_message[created] = with_message
        with self._database.reading() as connection:
            chats = [row["id"] for row in connection.execute(CREATED_AT, (created,))]
        with_message[NO_MESSAGE] = set(chats)
        lengths = self._lengths[created] = dict.fromkeys(chats, 0)
        for at in range(0, len(chats), READ_AT_ONCE):
            with self._database.reading() as connection:
                rows = messages_of(connection, chats[at : at + READ_AT_ONCE])
            for row in rows:
                with_message[hash((row["role"], row["text"], row["created"]))].add(row["chat"])
                lengths[row["chat"]] += 1
