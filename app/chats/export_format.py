"""The JSON format of exported chats.

    {"format": "foresight-chats", "version": 1, "presets": [...], "chats": [
        {"title": "...", "folder": "", "shown": 2, ..., "messages": [
            {"id": 1, "parent": 0, "role": "user", "text": "...", ...},
            {"id": 2, "parent": 1, "role": "assistant", "marks": [[5, "model", 0], ...], "provenance": {...}}]}]}

The ids are the file's own; importing assigns new ones. Marks are [end, origin, step].
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from app.errors import ImportBroken
from app.values.chat import ChatPreset, MessageContent, Provenance, TokenMark, WritingState
from app.values.dataclass_json import read, to_dict
from app.values.document import Sources
from app.values.json_answers import JsonAnswers
from app.values.messages import Role, Sampling

FORMAT, VERSION = "foresight-chats", 1


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A message in the tree; `parent` 0 is the root."""

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
    def content(self) -> MessageContent:
        """The message's content."""
        return MessageContent(
            self.text, self.state, self.note, self.marks, self.provenance, self.thought, self.sources
        )


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


def to_json(chat: ChatRecord) -> dict[str, Any]:
    """A chat as JSON."""
    bare = [replace(message, marks=()) for message in chat.messages]
    found = to_dict(replace(chat, messages=tuple(bare)))
    for message, record in zip(found["messages"], chat.messages, strict=True):
        message["marks"] = [[mark.end, mark.origin, mark.step] for mark in record.marks]
    return found


def require_known_version(version: object) -> None:
    """Raises ImportBroken for a file that a newer app wrote."""
    if isinstance(version, int) and version > VERSION:
        raise ImportBroken(
            f"A newer version of Foresight wrote this file (format {version}). Update Foresight to import it."
        )


def chat_from_json(found: object) -> ChatRecord | None:
    """A chat from parsed JSON; None for what is none."""
    if not isinstance(found, dict) or not isinstance(found.get("messages"), list):
        return None
    messages = [_message(one) for one in found["messages"] if isinstance(one, dict)]
    # Ids grow, so parents come before children.
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


def preset_to_json(preset: ChatPreset) -> dict[str, Any]:
    """A preset as JSON; the format calls its settings "manner"."""
    return {"name": preset.name, "manner": to_dict(preset.settings)}


def presets_from_json(found: object) -> tuple[ChatPreset, ...]:
    """The presets in parsed JSON; invalid ones are left out."""
    presets = []
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict):
            with suppress(ValueError):
                presets.append(read(ChatPreset, {"name": one.get("name"), "settings": one.get("manner")}))
    return tuple(presets)
