"""Chats in exports of other chat apps as records of Foresight.

    ChatGPT (conversations.json)
        [{"title", "create_time", "mapping": {id: {"parent", "message"}}, "current_node"}]
    Open WebUI
        [{"title", "created_at", "chat": {"history": {"messages": {id: {"parentId", ...}}, "currentId"}}}]

Both keep a chat as a tree. Nodes without text (system messages, tools, pictures) are left out, and what stands
below them moves up.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from app.chats.export_format import ChatRecord, MessageRecord
from app.values.messages import Role

SPOKEN = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a foreign tree; `role` is "" for one that is no message of a person or a model."""

    parent: str
    role: str = ""
    text: str = ""
    created: float = 0.0


def foreign_chat(found: object) -> ChatRecord | None:
    """A chat from parsed JSON; None for what is none, or has no message."""
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
    text = (
        ""
        if is_hidden or content.get("content_type") not in ("text", "multimodal_text")
        else "\n".join(texts)
    )
    return _Node(str(node.get("parent") or ""), str(role or ""), text, _time(message.get("create_time")))


def _webui_node(found: Any) -> _Node:
    node = _dict(found)
    text = node.get("content")
    return _Node(
        str(node.get("parentId") or ""),
        str(node.get("role") or ""),
        text if isinstance(text, str) else "",
        _time(node.get("timestamp")),
    )


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
    """All nodes that hang from a root, each after its parent, siblings in the order of the file."""
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
    """Seconds since 1970; 0 for none."""
    return float(found) if isinstance(found, int | float) and 0 <= found < 1e11 else 0.0
