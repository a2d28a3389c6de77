"""Import of exported chats, under new ids, in transactions that are so short that nobody waits for them.

A chat is hidden, like a deleted one, until its last message is stored. So a process that is killed leaves whole
chats only: the next start erases the hidden one, and importing the file again adds what is missing.

    create (hidden), 50 messages   |   50 messages   |   10 messages, show; create the next one (hidden), ...

A chat is identified by the time it was created. One that is here with every message of the file is not imported
twice; one that was continued elsewhere is imported beside the one that is here.
"""

import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from app.chats.archive_reading import open_archive
from app.chats.chat_settings import columns_of, presets, save_preset
from app.chats.chat_table import create, hide_new, is_new, one_line, set_title
from app.chats.export_format import ChatRecord, MessageRecord
from app.chats.message_table import INTERRUPTED, insert, messages_of, tree_of
from app.chats.message_tree import ROOT
from app.database import Database
from app.errors import ImportBroken
from app.values.chat import ChatPreset, ChatSettings, ImportResult, MessageContent
from app.values.text_normalisation import storable

PIECE = 100_000
"""Characters that are written in one transaction, and what each step counts for besides."""
STEP = 1_000
READ_AT_ONCE = 50
"""Chats whose messages are read in one transaction."""
LEAST_PAUSE = 0.005
"""Seconds between two transactions, at least: others get the database meanwhile."""
NO_MESSAGE = hash(())
CREATED_AT = "SELECT id FROM chat WHERE created = ? AND deleted IS NULL"
INTERRUPTED_IMPORT = (
    "The import was interrupted: Foresight was started or ended, or all chats were deleted meanwhile. Import the "
    "file again: chats that are here already are not imported twice."
)
Step = Callable[[sqlite3.Connection], None]
WeightedStep = tuple[int, Step]
"""Characters that are written, and what writes them."""
Report = Callable[[int, int], None]
"""Called with how many of how many chats are done."""


def import_file(database: Database, text: str, now: float, report: Report) -> ImportResult:
    """Adds the chats of a file that are not here yet, and its presets. Raises ImportBroken."""
    file = open_archive(text)
    with database.writing() as connection:
        _add_presets(connection, file.presets)
    return add_chats(database, file.chats(), now, lambda done: report(done, len(file.starts)))


def add_chats(
    database: Database, records: Iterable[ChatRecord | None], now: float, report: Callable[[int], None]
) -> ImportResult:
    """Adds the chats that are not here yet."""
    known, numbers = _KnownChats(database), {True: 0, False: 0}

    def steps() -> Iterator[WeightedStep]:
        for done, record in enumerate(records):
            report(done)
            if record is None:
                continue
            is_new = not known.has(record)
            numbers[is_new] += 1
            if is_new:
                yield from _NewChat(record, now).steps()

    write_in_pieces(database, steps())
    return ImportResult(numbers[True], numbers[False])


def _add_presets(connection: sqlite3.Connection, added: Iterable[ChatPreset]) -> None:
    """Adds presets, with a number where another one has the name."""
    taken = {preset.name: preset.settings for preset in presets(connection)}
    for preset in added:
        names = (
            f"{one_line(preset.name)}{end}" for end in ("", *(f" ({number})" for number in range(2, 99)))
        )
        name = next((one for one in names if taken.get(one, preset.settings) == preset.settings), "")
        if name and name not in taken:
            taken[name] = preset.settings
            save_preset(connection, replace(preset, name=name))


def write_in_pieces(database: Database, steps: Iterable[WeightedStep]) -> None:
    """Takes these steps in transactions of about PIECE characters."""
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
    # Another process polls for its turn, so it needs more than a moment.
    time.sleep(max(LEAST_PAUSE, (time.monotonic() - begin) / 2))


class _NewChat:
    """Writes one chat."""

    def __init__(self, record: ChatRecord, now: float) -> None:
        self._record = record
        self._now = now
        self._chat = 0
        self._ids: dict[int, int] = {}

    def steps(self) -> Iterator[WeightedStep]:
        """What is to be done, in this order."""
        yield 0, self._create
        for message in self._record.messages:
            yield len(message.text), partial(self._put, message)
        yield 0, self._show

    def _create(self, connection: sqlite3.Connection) -> None:
        record = self._record
        settings = columns_of(ChatSettings(record.system, record.sampling, (), record.json_answers))
        self._chat = create(connection, settings, "", "", record.created).chat
        hide_new(connection, self._chat)

    def _put(self, message: MessageRecord, connection: sqlite3.Connection) -> None:
        """A message with an unknown parent becomes a first message."""
        self._require_hidden(connection)
        parent = self._ids.get(message.parent, ROOT)
        self._ids[message.id] = insert(
            connection, self._chat, parent, message.role, _localised(message.content), message.created
        )

    def _show(self, connection: sqlite3.Connection) -> None:
        self._require_hidden(connection)
        record = self._record
        set_title(connection, self._chat, one_line(record.title), record.is_named)
        # Without a valid shown message the newest is shown.
        shown = self._ids.get(record.shown) or tree_of(connection, self._chat).newest_below(ROOT)
        # An impossible date, such as one in milliseconds, is replaced by now.
        updated = record.updated if 0 <= record.updated <= self._now else self._now
        connection.execute(
            "UPDATE chat SET folder = ?, is_pinned = ?, updated = ?, shown = ?, deleted = NULL WHERE id = ?",
            (one_line(record.folder), record.is_pinned, updated, shown, self._chat),
        )

    def _require_hidden(self, connection: sqlite3.Connection) -> None:
        """Raises ImportBroken where the chat is being erased."""
        if not is_new(connection, self._chat):
            raise ImportBroken(INTERRUPTED_IMPORT)


class _KnownChats:
    """The chats that are here, read once for each creation time: in some files all chats have the same.

    Each stands for one chat of the file only, so that of two chats that say the same both come in."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._with_message: dict[float, dict[int, set[int]]] = {}
        self._lengths: dict[float, dict[int, int]] = {}

    def has(self, record: ChatRecord) -> bool:
        """Whether a chat of the same creation time has all these messages."""
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
        """The chat that is in all sets and has the fewest other messages; 0 for none."""
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


def _localised(content: MessageContent) -> MessageContent:
    """Content for this database: nobody is writing it here, and its documents are not here."""
    if sources := content.sources:
        cited = tuple(replace(one, document=0) for one in sources.cited)
        content = replace(content, sources=replace(sources, cited=cited))
    if content.state != "writing":
        return content
    return replace(content, state="interrupted", note=INTERRUPTED)
