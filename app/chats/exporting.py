"""Chats written out: JSON with everything, Markdown to read."""

import json
import sqlite3
from collections.abc import Iterable, Iterator

from app import __version__
from app.chat_messages import ChatPreset, StoredMessage, Thread
from app.chats.lines import require_chat
from app.chats.messages import stored, tree_of
from app.chats.provenance_json import sampling_from_json
from app.chats.records import FORMAT, VERSION, ChatRecord, MessageRecord, to_json
from app.chats.values_json import plain

WHO = {"system": "System", "user": "You", "assistant": "Reply"}


def record_of(connection: sqlite3.Connection, chat: int) -> ChatRecord:
    """A chat with all its messages. Raises ChatNotFound."""
    row = require_chat(connection, chat)
    tree = tree_of(connection, chat)
    messages = stored(connection, sorted(tree), tree)
    return ChatRecord(
        row["title"],
        bool(row["is_named"]),
        row["folder"],
        bool(row["is_pinned"]),
        row["system"],
        sampling_from_json(row["sampling"]),
        row["created"],
        row["updated"],
        row["shown"],
        tuple(_message(message, tree.parent(message.id)) for message in messages),
    )


def library_parts(chats: Iterable[ChatRecord], presets: Iterable[ChatPreset]) -> Iterator[str]:
    """The file, a line for each chat; a chat is asked for when its line is due."""
    head = {"format": FORMAT, "version": VERSION, "app": __version__}
    kept = json.dumps({**head, "presets": [plain(preset) for preset in presets]}, ensure_ascii=False)
    yield f'{kept[:-1]}, "chats": [\n'
    comma = ""
    for chat in chats:
        yield comma + json.dumps(to_json(chat), ensure_ascii=False)
        comma = ",\n"
    yield "\n]}\n"


def markdown(thread: Thread) -> str:
    """What is shown of a chat, as a text to read."""
    parts = [f"# {thread.title or 'Chat'}"]
    if thread.manner.system:
        parts.append("\n".join(f"> {line}".rstrip() for line in thread.manner.system.splitlines()))
    for message in thread.messages:
        parts += [_heading(message), message.text.strip("\n")]
        if message.written.note:
            parts.append(f"*{message.written.note}*")
    return "\n\n".join(filter(None, parts)) + "\n"


def _heading(message: StoredMessage) -> str:
    provenance = message.written.provenance
    return f"## {provenance.model.name if provenance else WHO.get(message.role, message.role)}"


def _message(message: StoredMessage, parent: int) -> MessageRecord:
    written = message.written
    return MessageRecord(
        message.role,
        message.id,
        parent,
        written.text,
        written.state,
        written.note,
        written.thought,
        message.created,
        written.marks,
        written.provenance,
        written.sources,
    )
