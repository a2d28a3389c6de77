"""Writes chats as JSON or Markdown, and reads the JSON. Collections and tools of chats are not exported.

    {"format": "foresight-chats", "version": 1, "presets": [...], "chats": [
        {"title": "...", "folder": "", "shown": 2, ..., "messages": [
            {"id": 1, "parent": 0, "role": "user", "text": "...", ...},
            {"id": 2, "parent": 1, "role": "assistant", "marks": [[5, "model", 0], ...], "provenance": {...}}]}]}

Marks are [end, origin, step]. The format calls a preset's settings "manner"."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

from app import __version__
from app.chats.chat_table import require_chat, settings_of
from app.chats.message_table import rows_of, stored_of, tree_of
from app.database.database import Database
from app.errors import ImportBroken
from app.values.chat import (
    ChatPreset,
    MessageContent,
    Provenance,
    StoredMessage,
    Thread,
    TokenMark,
    WritingState,
)
from app.values.dataclass_json import read, to_dict
from app.values.document import Sources
from app.values.json_answers import JsonAnswers
from app.values.messages import UNSTORED, Role, Sampling
from app.values.tools import CalledTool, quotation, shown_text

FORMAT, VERSION = "foresight-chats", 1
CONTENT = tuple(one.name for one in fields(MessageContent))
SPEAKERS = {"system": "System", "user": "You", "assistant": "Reply"}


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A message with its parent in the tree; `parent` 0 is the root."""

    role: Role
    id: int = 0
    parent: int = 0
    text: str = ""
    state: WritingState = "done"
    note: str = ""
    thought: float = 0.0
    created: float = 0.0
    marks: tuple[TokenMark, ...] = ()
    provenance: Provenance | None = None
    sources: Sources | None = None
    summary: str = ""
    calls: tuple[CalledTool, ...] = ()

    @property
    def content(self) -> MessageContent:
        return MessageContent(**{name: getattr(self, name) for name in CONTENT})


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """A chat with all versions of all messages, parents before children."""

    title: str = ""
    is_named: bool = False
    folder: str = ""
    is_pinned: bool = False
    system: str = ""
    sampling: Sampling | None = None
    json_answers: JsonAnswers = field(default_factory=JsonAnswers)
    created: float = 0.0
    updated: float = 0.0
    shown: int = 0
    messages: tuple[MessageRecord, ...] = field(default_factory=tuple)


def record_of(database: Database, chat: int) -> ChatRecord:
    """Reads a chat with all its messages. Raises ChatNotFound."""
    with database.reading() as connection:
        row = require_chat(connection, chat)
        tree = tree_of(connection, chat)
        rows = rows_of(connection, sorted(tree))
    settings, messages = settings_of(row), stored_of(rows, sorted(tree), tree)
    return ChatRecord(
        row["title"], bool(row["is_named"]), row["folder"], bool(row["is_pinned"]), settings.system,
        settings.sampling, settings.json_answers, row["created"], row["updated"], row["shown"],
        tuple(message_record(message, tree.parent(message.id)) for message in messages),
    )  # fmt: skip


def message_record(message: StoredMessage, parent: int) -> MessageRecord:
    content = {name: getattr(message.content, name) for name in CONTENT}
    return MessageRecord(message.role, message.id, parent, created=message.created, **content)


def archive_parts(chats: Iterable[ChatRecord], presets: Iterable[ChatPreset]) -> Iterator[str]:
    """Yields the JSON file in parts, a line for each chat; a chat is read only when its line is written."""
    manners = [{"name": preset.name, "manner": to_dict(preset.settings)} for preset in presets]
    head = {"format": FORMAT, "version": VERSION, "app": __version__, "presets": manners}
    yield f'{json.dumps(head, ensure_ascii=False)[:-1]}, "chats": [\n'
    comma = ""
    for chat in chats:
        unmarked = tuple(replace(message, marks=()) for message in chat.messages)
        found = to_dict(replace(chat, messages=unmarked), UNSTORED)
        for message, record in zip(found["messages"], chat.messages, strict=True):
            message["marks"] = [[mark.end, mark.origin, mark.step] for mark in record.marks]
        yield comma + json.dumps(found, ensure_ascii=False)
        comma = ",\n"
    yield "\n]}\n"


def markdown(thread: Thread) -> str:
    parts = [f"# {thread.title or 'Chat'}"]
    if thread.settings.system:
        parts.append(quotation(thread.settings.system))
    for message in thread.messages:
        provenance = message.content.provenance
        speaker = provenance.model.name if provenance else SPEAKERS.get(message.role, message.role)
        parts += [f"## {speaker}", shown_text(message.text, message.content.calls).strip("\n")]
        if message.content.note:
            parts.append(f"*{message.content.note}*")
        if message.content.summary:
            parts.append(f"*Summary of the messages above:* {message.content.summary}")
    return "\n\n".join(filter(None, parts)) + "\n"


def require_known_version(version: object) -> None:
    """Raises ImportBroken if a newer version of the app wrote the file."""
    if isinstance(version, int) and version > VERSION:
        raise ImportBroken(
            f"A newer version of Foresight wrote this file (format {version}). Update Foresight to import it."
        )


def chat_from_json(found: object) -> ChatRecord | None:
    """Reads a chat from parsed JSON; returns None if it is not a chat."""
    if not isinstance(found, dict) or not isinstance(found.get("messages"), list):
        return None
    messages = [_message_from_json(one) for one in found["messages"] if isinstance(one, dict)]
    # A parent's id is smaller than its children's, so this order puts parents first.
    kept = sorted((one for one in messages if one), key=lambda message: message.id)
    return replace(read(ChatRecord, {**found, "messages": []}), messages=tuple(kept))


def _message_from_json(found: dict[str, Any]) -> MessageRecord | None:
    marks, names = found.get("marks"), ("end", "origin", "step")
    read_marks = [
        dict(zip(names, one, strict=False)) if isinstance(one, list) else {}
        for one in (marks if isinstance(marks, list) else ())
    ]
    try:
        return read(MessageRecord, {**found, "marks": read_marks})
    except ValueError:
        return None


def presets_from_json(found: object) -> tuple[ChatPreset, ...]:
    """Reads the presets from parsed JSON; invalid presets are left out."""
    presets = []
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict):
            with suppress(ValueError):
                presets.append(read(ChatPreset, {"name": one.get("name"), "settings": one.get("manner")}))
    return tuple(presets)
