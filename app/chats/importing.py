"""Chats read in again, under new ids.

A chat is known by the moment it was begun: one that is here with every message of the file is not taken in twice;
one that was gone on with elsewhere comes in beside the one that is here.
"""

import json
import sqlite3
from collections import defaultdict
from dataclasses import replace

from app.chat_messages import ChatSettings, ImportResult, MessageContent
from app.chats.lines import clean, create, set_title
from app.chats.messages import INTERRUPTED, insert, tree_of
from app.chats.presets import presets, save_preset
from app.chats.records import ChatRecord, Library, MessageRecord, library_from_json
from app.chats.tree import ROOT
from app.errors import ImportBroken
from app.spacing import storable

Said = tuple[str, str, float]
BEGUN = "SELECT id FROM chat WHERE created = ? AND deleted IS NULL"
SAID = f"SELECT chat, role, text, created FROM message WHERE chat IN ({BEGUN})"


def library_of(text: str) -> Library:
    """What a file holds, tolerantly read. Raises ImportBroken."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ImportBroken(
            f"This file is no JSON, or only a part of it ({error}): choose one that Foresight exported."
        ) from error
    return library_from_json(found)


def put_in(connection: sqlite3.Connection, library: Library, now: float) -> ImportResult:
    """Add the chats that are not there, and presets whose names are free."""
    taken = {preset.name for preset in presets(connection)}
    for preset in library.presets:
        if preset.name not in taken:
            save_preset(connection, preset)
    known = _Known(connection)
    new = [chat for chat in library.chats if not known.has(chat)]
    for chat in new:
        _put_chat(connection, chat, now)
    return ImportResult(len(new), len(library.chats) - len(new))


class _Known:
    """The chats that are there, each read once: in some files all chats were begun at the same moment."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._having: dict[float, dict[Said, set[int]]] = {}
        self._begun: dict[float, set[int]] = {}

    def has(self, record: ChatRecord) -> bool:
        """Whether a chat that was begun at the same moment has all these messages."""
        if record.created not in self._begun:
            self._read(record.created)
        having = self._having[record.created]
        wanted = {(one.role, storable(one.text), one.created) for one in record.messages}
        chats = sorted((having.get(one, set()) for one in wanted), key=len)
        return bool(set.intersection(*chats) if chats else self._begun[record.created])

    def _read(self, created: float) -> None:
        having: dict[Said, set[int]] = defaultdict(set)
        self._having[created] = having
        begun = self._connection.execute(BEGUN, (created,)).fetchall()
        self._begun[created] = {row["id"] for row in begun}
        for row in self._connection.execute(SAID, (created,)):
            having[row["role"], row["text"], row["created"]].add(row["chat"])


def _put_chat(connection: sqlite3.Connection, record: ChatRecord, now: float) -> None:
    manner = ChatSettings(record.system, record.sampling)
    chat = create(connection, manner, record.folder, "", record.created).chat
    set_title(connection, chat, clean(record.title), record.is_named)
    ids = _put_messages(connection, chat, record.messages)
    # A file that does not say what is shown, or wrongly, shows the newest.
    shown = ids.get(record.shown) or tree_of(connection, chat).newest_below(ROOT)
    # A date that nobody can have meant, one in milliseconds say, is no day to list a chat under.
    updated = record.updated if 0 <= record.updated <= now else now
    connection.execute(
        "UPDATE chat SET is_pinned = ?, updated = ?, shown = ? WHERE id = ?",
        (record.is_pinned, updated, shown, chat),
    )


def _put_messages(
    connection: sqlite3.Connection, chat: int, messages: tuple[MessageRecord, ...]
) -> dict[int, int]:
    """The new ids by those of the file. Below a parent that is not there, a message is a first one."""
    ids: dict[int, int] = {}
    for message in messages:
        parent = ids.get(message.parent, ROOT)
        ids[message.id] = insert(
            connection, chat, parent, message.role, _here(message.written), message.created
        )
    return ids


def _here(written: MessageContent) -> MessageContent:
    """Nobody here writes what was being written there, and documents here have numbers of their own."""
    if sources := written.sources:
        cited = tuple(replace(one, document=0) for one in sources.cited)
        written = replace(written, sources=replace(sources, cited=cited))
    if written.state != "writing":
        return written
    return replace(written, state="interrupted", note=INTERRUPTED)
