"""Import of exported chats, under new ids.

A chat is identified by the time it was created. One that is here with every message of the file is not imported
twice; one that was continued elsewhere is imported beside the one that is here.
"""

import json
import sqlite3
from collections import defaultdict
from dataclasses import replace

from app.chat_messages import ChatSettings, ImportResult, MessageContent
from app.chats.chat_settings import columns_of, presets, save_preset
from app.chats.chat_table import create, one_line, set_title
from app.chats.export_format import ChatArchive, ChatRecord, MessageRecord, archive_from_json
from app.chats.foreign_exports import foreign_archive
from app.chats.message_table import INTERRUPTED, insert, tree_of
from app.chats.message_tree import ROOT
from app.errors import ImportBroken
from app.text_normalisation import storable

MessageKey = tuple[str, str, float]
CREATED_AT = "SELECT id FROM chat WHERE created = ? AND deleted IS NULL"
MESSAGES_OF = f"SELECT chat, role, text, created FROM message WHERE chat IN ({CREATED_AT})"


def parse_archive(text: str) -> ChatArchive:
    """Parses a file. Raises ImportBroken."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ImportBroken(
            f"This file is not complete JSON ({error}). Choose a file that Foresight or another chat app exported."
        ) from error
    return foreign_archive(found) if isinstance(found, list) else archive_from_json(found)


def add_archive(connection: sqlite3.Connection, archive: ChatArchive, now: float) -> ImportResult:
    """Adds the chats that are not here yet, and presets whose names are free."""
    taken = {preset.name for preset in presets(connection)}
    for preset in archive.presets:
        if preset.name not in taken:
            save_preset(connection, preset)
    known = _KnownChats(connection)
    new = [chat for chat in archive.chats if not known.has(chat)]
    for chat in new:
        _put_chat(connection, chat, now)
    return ImportResult(len(new), len(archive.chats) - len(new))


class _KnownChats:
    """The chats that are here, read once for each creation time: in some files all chats have the same."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._with_message: dict[float, dict[MessageKey, set[int]]] = {}
        self._created: dict[float, set[int]] = {}

    def has(self, record: ChatRecord) -> bool:
        """Whether a chat of the same creation time has all these messages."""
        if record.created not in self._created:
            self._read(record.created)
        with_message = self._with_message[record.created]
        wanted = {(one.role, storable(one.text), one.created) for one in record.messages}
        chats = sorted((with_message.get(one, set()) for one in wanted), key=len)
        return bool(set.intersection(*chats) if chats else self._created[record.created])

    def _read(self, created: float) -> None:
        with_message: dict[MessageKey, set[int]] = defaultdict(set)
        self._with_message[created] = with_message
        rows = self._connection.execute(CREATED_AT, (created,)).fetchall()
        self._created[created] = {row["id"] for row in rows}
        for row in self._connection.execute(MESSAGES_OF, (created,)):
            with_message[row["role"], row["text"], row["created"]].add(row["chat"])


def _put_chat(connection: sqlite3.Connection, record: ChatRecord, now: float) -> None:
    settings = columns_of(ChatSettings(record.system, record.sampling, (), record.json_answers))
    chat = create(connection, settings, record.folder, "", record.created).chat
    set_title(connection, chat, one_line(record.title), record.is_named)
    ids = _put_messages(connection, chat, record.messages)
    # Without a valid shown message the newest is shown.
    shown = ids.get(record.shown) or tree_of(connection, chat).newest_below(ROOT)
    # An impossible date, such as one in milliseconds, is replaced by now.
    updated = record.updated if 0 <= record.updated <= now else now
    connection.execute(
        "UPDATE chat SET is_pinned = ?, updated = ?, shown = ? WHERE id = ?",
        (record.is_pinned, updated, shown, chat),
    )


def _put_messages(
    connection: sqlite3.Connection, chat: int, messages: tuple[MessageRecord, ...]
) -> dict[int, int]:
    """Returns the new ids by those of the file. A message with an unknown parent becomes a first message."""
    ids: dict[int, int] = {}
    for message in messages:
        parent = ids.get(message.parent, ROOT)
        ids[message.id] = insert(
            connection, chat, parent, message.role, _localised(message.content), message.created
        )
    return ids


def _localised(content: MessageContent) -> MessageContent:
    """Content for this database: nobody is writing it here, and its documents are not here."""
    if sources := content.sources:
        cited = tuple(replace(one, document=0) for one in sources.cited)
        content = replace(content, sources=replace(sources, cited=cited))
    if content.state != "writing":
        return content
    return replace(content, state="interrupted", note=INTERRUPTED)
