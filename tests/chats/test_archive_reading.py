"""Exports of ChatGPT and Open WebUI become chats, with all versions, on the path that was shown."""

import json
from typing import Any

import pytest

from app.chats.chats import Chats
from app.errors import ImportBroken
from app.values.chat import ImportResult


def said(key: str, parent: str | None, role: str, *parts: object, **more: Any) -> dict[str, Any]:
    """A node as ChatGPT writes it."""
    message = {
        "id": key, "author": {"role": role, "name": None, "metadata": {}}, "create_time": 1700000000.5,
        "content": {"content_type": "text", "parts": list(parts)}, "status": "finished_successfully",
        "metadata": {}, "recipient": "all", **more,
    }  # fmt: skip
    return {"id": key, "message": message, "parent": parent, "children": []}


CHATGPT = [
    {
        "title": "Cats",
        "create_time": 1700000000.25,
        "update_time": 1700000100.0,
        "mapping": {
            "second": said("second", "why", "assistant", "Because they can."),
            "root": {"id": "root", "message": None, "parent": None, "children": ["system"]},
            "system": said("system", "root", "system", ""),
            "why": said(
                "why", "system", "user", {"content_type": "image_asset_pointer"}, "Why do cats purr?"
            ),
            "first": said("first", "why", "assistant", "Nobody knows."),
            "thanks": said("thanks", "second", "user", "Thanks"),
        },
        "current_node": "first",
        "conversation_id": "c",
    }
]
OPEN_WEBUI = [
    {
        "id": "8a",
        "user_id": "1",
        "title": "Dogs",
        "created_at": 1700000000,
        "updated_at": 1700000100,
        "archived": False,
        "chat": {
            "title": "Dogs",
            "models": ["llama3:latest"],
            "history": {
                "messages": {
                    "a": {"id": "a", "parentId": None, "childrenIds": ["b"], "role": "user",
                          "content": "Why do dogs bark?", "timestamp": 1700000001},
                    "b": {"id": "b", "parentId": "a", "childrenIds": [], "role": "assistant",
                          "content": "To talk.", "model": "llama3:latest", "timestamp": 1700000002, "done": True},
                },
                "currentId": "b",
            },
            "messages": [],
        },
    }
]  # fmt: skip


def imported(chats: Chats, found: object) -> tuple[str, list[tuple[str, str, int]]]:
    """The title of the only chat, and its shown messages with the number of their versions."""
    assert chats.import_json(json.dumps(found)) == ImportResult(1, 0)
    [summary] = chats.summaries()
    messages = chats.thread(summary.id, 50).messages
    return summary.title, [(message.role, message.text, len(message.versions)) for message in messages]


def test_a_chatgpt_export_has_all_versions_and_shows_the_current_one(chats: Chats) -> None:
    assert imported(chats, CHATGPT) == (
        "Cats",
        [("user", "Why do cats purr?", 1), ("assistant", "Nobody knows.", 2)],
    )


def test_an_open_webui_export_is_imported(chats: Chats) -> None:
    assert imported(chats, OPEN_WEBUI) == (
        "Dogs",
        [("user", "Why do dogs bark?", 1), ("assistant", "To talk.", 1)],
    )


@pytest.mark.parametrize("found", [CHATGPT, OPEN_WEBUI])
def test_the_same_export_is_not_imported_twice(chats: Chats, found: object) -> None:
    imported(chats, found)
    assert chats.import_json(json.dumps(found)) == ImportResult(0, 1)


@pytest.mark.parametrize(
    "found",
    [
        [],
        [1, "x", None],
        [{"mapping": {}}],
        [{"chat": {"history": {"messages": []}}}],
        [{"mapping": {"a": said("a", "b", "user", "A ring"), "b": said("b", "a", "assistant", "of nodes")}}],
    ],
)
def test_a_list_without_chats_is_refused_in_a_sentence(chats: Chats, found: object) -> None:
    with pytest.raises(ImportBroken, match="no chats that can be read"):
        chats.import_json(json.dumps(found))


@pytest.mark.parametrize(
    "broken", [None, 5, [], {"message": 3}, {"message": {"content": {"parts": 1}, "author": 2}}]
)
def test_a_broken_node_spoils_nothing_else(chats: Chats, broken: object) -> None:
    found = [{**CHATGPT[0], "mapping": {**CHATGPT[0]["mapping"], "x": broken}}]  # type: ignore[dict-item]
    assert len(imported(chats, found)[1]) == 2
