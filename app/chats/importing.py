"""Chats read in again, under new ids."""

import json
import sqlite3
from dataclasses import replace

from app.chat_messages import ChatManner, Written
from app.chats.lines import clean, create, set_title
from app.chats.messages import INTERRUPTED, insert, tree_of
from app.chats.presets import presets, save_preset
from app.chats.records import ChatRecord, Library, MessageRecord, library_from_json
from app.chats.tree import ROOT
from app.errors import ImportBroken


def library_of(text: str) -> Library:
    """What a file holds, tolerantly read. Raises ImportBroken."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ImportBroken(
            f"This file is no JSON, or only a part of it ({error}): choose one that Foresight exported."
        ) from error
    return library_from_json(found)


def put_in(connection: sqlite3.Connection, library: Library) -> int:
    """Add the chats beside those that are there, and presets whose names are free; the number of chats."""
    taken = {preset.name for preset in presets(connection)}
    for preset in library.presets:
        if preset.name not in taken:
            save_preset(connection, preset)
    for chat in library.chats:
        _put_chat(connection, chat)
    return len(library.chats)


def _put_chat(connection: sqlite3.Connection, record: ChatRecord) -> None:
    manner = ChatManner(record.system, record.sampling)
    chat = create(connection, manner, record.folder, "", record.created).chat
    set_title(connection, chat, clean(record.title), record.is_named)
    ids = _put_messages(connection, chat, record.messages)
    # A file that does not say what is shown, or wrongly, shows the newest.
    shown = ids.get(record.shown) or tree_of(connection, chat).newest_below(ROOT)
    connection.execute(
        "UPDATE chat SET is_pinned = ?, updated = ?, shown = ? WHERE id = ?",
        (record.is_pinned, record.updated, shown, chat),
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


def _here(written: Written) -> Written:
    """Nobody here writes what was being written there, and documents here have numbers of their own."""
    if sources := written.sources:
        cited = tuple(replace(one, document=0) for one in sources.cited)
        written = replace(written, sources=replace(sources, cited=cited))
    if written.state != "writing":
        return written
    return replace(written, state="interrupted", note=INTERRUPTED)
