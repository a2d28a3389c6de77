"""A chat on its way out of a database or into one, and the file's form that it takes between.

    {"format": "foresight-chats", "version": 1, "presets": [...], "chats": [
        {"title": "...", "folder": "", "shown": 2, ..., "messages": [
            {"id": 1, "parent": 0, "role": "user", "text": "...", ...},
            {"id": 2, "parent": 1, "role": "assistant", "marks": [[5, "model", 0], ...], "provenance": {...}}]}]}

The ids are those of the file: importing gives new ones. Marks are [end, origin, step].
"""

from dataclasses import dataclass, field, replace
from typing import Any

from app.chat_messages import ChatPreset, MessageContent, Provenance, TokenMark, WritingState
from app.chats.values_json import plain, read
from app.document_messages import Sources
from app.errors import ImportBroken
from app.messages import Role, Sampling

FORMAT, VERSION = "foresight-chats", 1


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A message with its place in the tree; `parent` 0 is the root."""

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

    @property
    def written(self) -> MessageContent:
        """What it says, and how that came."""
        return MessageContent(
            self.text, self.state, self.note, self.marks, self.provenance, self.thought, self.sources
        )


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """A chat with all versions of all messages, parents before their children."""

    title: str = ""
    is_named: bool = False
    folder: str = ""
    is_pinned: bool = False
    system: str = ""
    sampling: Sampling | None = None
    created: float = 0.0
    updated: float = 0.0
    shown: int = 0
    messages: tuple[MessageRecord, ...] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Library:
    """What a file of chats holds."""

    chats: tuple[ChatRecord, ...]
    presets: tuple[ChatPreset, ...] = ()


def to_json(chat: ChatRecord) -> dict[str, Any]:
    """A chat as JSON."""
    bare = [replace(message, marks=()) for message in chat.messages]
    found = plain(replace(chat, messages=tuple(bare)))
    for message, record in zip(found["messages"], chat.messages, strict=True):
        message["marks"] = [[mark.end, mark.origin, mark.step] for mark in record.marks]
    return found


def library_from_json(found: object) -> Library:
    """What can be read of a parsed file; a chat that makes no sense is left out. Raises ImportBroken."""
    if not isinstance(found, dict) or not isinstance(found.get("chats"), list):
        raise ImportBroken("This file holds no chats of Foresight's: choose one that it exported as JSON.")
    version = found.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ImportBroken(
            f"A newer Foresight wrote this file (form {version}): update the app to import it."
        )
    chats = tuple(_chat(one) for one in found["chats"] if _is_chat(one))
    if found["chats"] and not chats:
        raise ImportBroken("None of the chats in this file could be read: export them again.")
    return Library(chats, _presets(found.get("presets")))


def _is_chat(found: object) -> bool:
    return isinstance(found, dict) and isinstance(found.get("messages"), list)


def _chat(found: dict[str, Any]) -> ChatRecord:
    messages = [_message(one) for one in found["messages"] if isinstance(one, dict)]
    # Parents were there first, and ids grow.
    kept = sorted((one for one in messages if one), key=lambda message: message.id)
    return replace(read(ChatRecord, {**found, "messages": []}), messages=tuple(kept))


def _message(found: dict[str, Any]) -> MessageRecord | None:
    marks = [_mark(one) for one in found.get("marks") or ()] if isinstance(found.get("marks"), list) else []
    try:
        return read(MessageRecord, {**found, "marks": marks})
    except ValueError:
        return None


def _mark(found: object) -> dict[str, object]:
    return dict(zip(("end", "origin", "step"), found, strict=False)) if isinstance(found, list) else {}


def _presets(found: object) -> tuple[ChatPreset, ...]:
    presets = []
    for one in found if isinstance(found, list) else ():
        try:
            presets.append(read(ChatPreset, one))
        except ValueError:
            continue
    return tuple(presets)
