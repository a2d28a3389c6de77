"""Reads exported files one chat at a time: while JSON is parsed, no other thread runs.

All of a file is parsed before its first chat is used, so nothing comes from a file that is broken further down:

    {"format": "foresight-chats", "chats": [{...}, {...}], "presets": [...]}     or of another app: [{...}, {...}]
                                            ^ start ^ start
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from json.decoder import WHITESPACE  # type: ignore[attr-defined]
from typing import Any

from app.chats.export_format import ChatRecord, chat_from_json, presets_from_json, require_known_version
from app.chats.foreign_exports import foreign_chat
from app.errors import ImportBroken
from app.values.chat import ChatPreset

CHATS = "chats"
DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class ChatFile:
    """An exported file that was looked through: its text, where its chats start in it, and its presets."""

    text: str
    starts: tuple[int, ...] = ()
    presets: tuple[ChatPreset, ...] = ()
    is_foreign: bool = False

    def chats(self) -> Iterator[ChatRecord | None]:
        """Each chat, parsed when it is asked for; None for what is no chat."""
        return (_chat(DECODER.raw_decode(self.text, start)[0], self.is_foreign) for start in self.starts)


def open_archive(text: str) -> ChatFile:
    """Looks through a file. Raises ImportBroken."""
    json_text = _JsonText(text)
    try:
        file, has_chat = _look_through(json_text)
    except (ValueError, RecursionError) as error:
        raise ImportBroken(
            f"This file is not complete JSON ({error}). Choose a file that Foresight or another chat app exported."
        ) from error
    if file.is_foreign and not has_chat:
        raise ImportBroken(
            "This file has no chats that can be read. Choose a JSON file that Foresight or Open WebUI exported, "
            "or the conversations.json of a ChatGPT export."
        )
    if not json_text.has_chats:
        raise ImportBroken("This file has no Foresight chats. Choose a JSON file that Foresight exported.")
    if file.starts and not has_chat:
        raise ImportBroken("None of the chats in this file could be read. Export them again.")
    return file


def _look_through(json_text: "_JsonText") -> tuple[ChatFile, bool]:
    """The file, and whether it has a chat that can be read."""
    starts, others = list[int](), dict[str, Any]()
    has_chat, is_foreign = False, json_text.is_at("[")
    for key, start, value in json_text.values():
        if key == CHATS:
            starts.append(start)
            has_chat = has_chat or _chat(value, is_foreign) is not None
        else:
            others[key] = value
    require_known_version(others.get("version"))
    presets = presets_from_json(others.get("presets"))
    return ChatFile(json_text.text, tuple(starts), presets, is_foreign), has_chat


def _chat(found: object, is_foreign: bool) -> ChatRecord | None:
    return foreign_chat(found) if is_foreign else chat_from_json(found)


class _JsonText:
    """A JSON text that is parsed value by value; `has_chats` tells whether a list of chats was met."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.has_chats = False
        self._at = 0

    def is_at(self, sign: str) -> bool:
        """Whether this sign comes next, after blanks."""
        self._at = WHITESPACE.match(self.text, self._at).end()
        return self.text.startswith(sign, self._at)

    def values(self) -> Iterator[tuple[str, int, Any]]:
        """Each value with its key and its place, and each chat instead of their list."""
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
        """Stops before each element between two brackets."""
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
