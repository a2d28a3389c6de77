"""Reads exported files of Foresight, ChatGPT and Open WebUI, one chat at a time.

Python's other threads wait while JSON is parsed, so a file is parsed in many short calls. The whole file is
checked before its first chat is used, so nothing is imported from a file that is damaged further down. The other
apps keep a chat as a tree, too; nodes without text are left out, and the nodes below them move up."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from json.decoder import WHITESPACE  # type: ignore[attr-defined]
from typing import Any, cast

from app.chats.exporting import (
    ChatRecord,
    MessageRecord,
    chat_from_json,
    presets_from_json,
    require_known_version,
)
from app.errors import ImportBroken
from app.values.chat import ChatPreset
from app.values.messages import Role

CHATS = "chats"
DECODER = json.JSONDecoder()
SPOKEN = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class ChatFile:
    """An exported file that was checked: its text, the positions where its chats start, and its presets."""

    text: str
    starts: tuple[int, ...] = ()
    presets: tuple[ChatPreset, ...] = ()
    is_foreign: bool = False

    def chats(self) -> Iterator[ChatRecord | None]:
        """Yields each chat, which is parsed only when it is reached; None for an entry that cannot be read."""
        read = _foreign_chat if self.is_foreign else chat_from_json
        return (read(DECODER.raw_decode(self.text, start)[0]) for start in self.starts)


def open_archive(text: str) -> ChatFile:
    """Checks a whole file and finds its chats. Raises ImportBroken."""
    json_text = _JsonText(text)
    starts, others, has_chat = list[int](), dict[str, Any](), False
    try:
        is_foreign = json_text.is_at("[")
        read = _foreign_chat if is_foreign else chat_from_json
        for key, start, value in json_text.values():
            if key == CHATS:
                starts.append(start)
                has_chat = has_chat or read(value) is not None
            else:
                others[key] = value
        require_known_version(others.get("version"))
        presets = presets_from_json(others.get("presets"))
    except (ValueError, RecursionError) as error:
        raise ImportBroken(
            "This file is not JSON, or it is cut off. Choose a file that Foresight or another chat app exported."
        ) from error
    if is_foreign and not has_chat:
        raise ImportBroken(
            "This file has no chats that can be read. Choose a JSON file that Foresight or Open WebUI exported, "
            "or the conversations.json of a ChatGPT export."
        )
    if not json_text.has_chats:
        raise ImportBroken("This file has no Foresight chats. Choose a JSON file that Foresight exported.")
    if starts and not has_chat:
        raise ImportBroken("None of the chats in this file could be read. Export them again.")
    return ChatFile(text, tuple(starts), presets, is_foreign)


class _JsonText:
    """A JSON string that is parsed value by value; `has_chats` is true once a list of chats was found."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.has_chats = False
        self._at = 0

    def is_at(self, sign: str) -> bool:
        """Skips blanks, and returns whether this character comes next."""
        self._at = WHITESPACE.match(self.text, self._at).end()
        return self.text.startswith(sign, self._at)

    def values(self) -> Iterator[tuple[str, int, Any]]:
        """Yields (key, 0, value) for each member of the object whose value is not null, and (CHATS, position,
        chat) for each element of the list of chats. Raises ValueError for invalid JSON."""
        if self.is_at("["):
            yield from self._chats()
        elif self.is_at("{"):
            for _ in self._elements("{", "}"):
                key = self._value()
                self._take(":")
                if key == CHATS and self.is_at("["):
                    yield from self._chats()
                elif (value := self._value()) is not None and key != CHATS:
                    yield key, 0, value
        else:
            self._value()
        self.is_at("")
        if self._at < len(self.text):
            raise json.JSONDecodeError("Extra data", self.text, self._at)

    def _chats(self) -> Iterator[tuple[str, int, Any]]:
        self.has_chats = True
        for _ in self._elements("[", "]"):
            self.is_at("")
            start = self._at
            yield CHATS, start, self._value()

    def _elements(self, first: str, last: str) -> Iterator[None]:
        """Yields at the beginning of each element between two brackets; the caller then parses the element."""
        self._take(first)
        is_more = not self.is_at(last)
        while is_more:
            yield
            if is_more := not self.is_at(last):
                self._take(",")
        self._take(last)

    def _value(self) -> Any:
        self.is_at("")
        value, self._at = DECODER.raw_decode(self.text, self._at)
        return value

    def _take(self, sign: str) -> None:
        if not self.is_at(sign):
            raise json.JSONDecodeError(f"Expecting {sign!r}", self.text, self._at)
        self._at += 1


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of another app's message tree; `role` is "" if the node has no message."""

    parent: str
    role: str = ""
    text: str = ""
    created: float = 0.0


def _foreign_chat(found: object) -> ChatRecord | None:
    """Reads a chat of another app from parsed JSON; returns None if it is not a chat, or has no message."""
    if not isinstance(found, dict):
        return None
    if isinstance(found.get("mapping"), dict):
        nodes = {str(key): _chatgpt_node(node) for key, node in found["mapping"].items()}
        times = found.get("create_time"), found.get("update_time")
        return _record(found, nodes, found.get("current_node"), times)
    chat = found.get("chat")
    history = chat.get("history") if isinstance(chat, dict) else None
    if not isinstance(history, dict) or not isinstance(history.get("messages"), dict):
        return None
    nodes = {str(key): _webui_node(node) for key, node in history["messages"].items()}
    times = found.get("created_at"), found.get("updated_at")
    return _record(found, nodes, history.get("currentId"), times)


def _chatgpt_node(found: Any) -> _Node:
    node = _dict(found)
    message = _dict(node.get("message"))
    content, role = _dict(message.get("content")), _dict(message.get("author")).get("role")
    parts = content.get("parts")
    texts = [part for part in parts if isinstance(part, str)] if isinstance(parts, list) else []
    is_hidden = _dict(message.get("metadata")).get("is_visually_hidden_from_conversation")
    is_shown = not is_hidden and content.get("content_type") in ("text", "multimodal_text")
    text = "\n".join(texts) if is_shown else ""
    return _Node(str(node.get("parent") or ""), str(role or ""), text, _time(message.get("create_time")))


def _webui_node(found: Any) -> _Node:
    node = _dict(found)
    parent, role, text = (node.get(name) or "" for name in ("parentId", "role", "content"))
    plain = text if isinstance(text, str) else ""
    return _Node(str(parent), str(role), plain, _time(node.get("timestamp")))


def _record(
    found: dict[str, Any], nodes: Mapping[str, _Node], shown: object, times: tuple[object, object]
) -> ChatRecord | None:
    messages, ids = list[MessageRecord](), dict[str, int]()
    for key in _parents_first(nodes):
        node = nodes[key]
        parent = ids.get(node.parent, 0)
        if node.role not in SPOKEN or not node.text.strip():
            ids[key] = parent
            continue
        ids[key] = len(messages) + 1
        role = cast(Role, node.role)
        messages.append(MessageRecord(role, ids[key], parent, node.text, created=node.created))
    if not messages:
        return None
    title, created = found.get("title"), _time(times[0])
    record = ChatRecord(title if isinstance(title, str) else "", created=created, messages=tuple(messages))
    return replace(
        record, is_named=bool(record.title), updated=_time(times[1]) or created, shown=ids.get(str(shown), 0)
    )


def _parents_first(nodes: Mapping[str, _Node]) -> Iterator[str]:
    """Yields the keys of roots and of all nodes below them, parents first, siblings in the order of the file."""
    children: dict[str, list[str]] = {}
    for key, node in nodes.items():
        children.setdefault(node.parent if node.parent in nodes else "", []).append(key)
    waiting = children.pop("", [])[::-1]
    while waiting:
        key = waiting.pop()
        yield key
        waiting += children.pop(key, [])[::-1]


def _dict(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _time(found: object) -> float:
    """Returns a time in seconds since 1970; 0 if it is missing or invalid."""
    return float(found) if isinstance(found, int | float) and 0 <= found < 1e11 else 0.0
