"""Tool calls in what a model writes, in the Hermes form, while it is written.

    Let me look.<tool_call>
    {"name": "weather", "arguments": {"city": "Rome"}}
    </tool_call>

gives the text, then a call's id and name once, then its arguments as they come. What only looks like a call stays
text.
"""

import json
import re
import secrets
from dataclasses import dataclass
from typing import Protocol

OPENING, CLOSING = "<tool_call>", "</tool_call>"
_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)')
_PROMISING = re.compile(r'\s*(\{\s*("|$)|$)')
"""What may become a call: an object, or nothing yet."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A call's beginning: its place among the calls, its id and its name."""

    place: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of a call's arguments."""

    place: int
    text: str


Delta = TextDelta | CallDelta | ArgumentsDelta


class ReplyParser(Protocol):
    """Turns a reply's text into deltas."""

    def push(self, text: str) -> list[Delta]:
        """What this text adds."""

    def flush(self) -> list[Delta]:
        """What is left at the end."""


class TextParser:
    """All is text."""

    def push(self, text: str) -> list[Delta]:
        """The text."""
        return [TextDelta(text)] if text else []

    def flush(self) -> list[Delta]:
        """Nothing is held back."""
        return []


class ToolCallParser:
    """Text with calls in it. It reads text, a call's head, its arguments and its end, in turn."""

    def __init__(self) -> None:
        self._held = ""
        self._calls = 0
        self._json = _JsonEnd()
        self._read = self._text

    def push(self, text: str) -> list[Delta]:
        """What this text adds; the beginning of a tag or of a call is held back."""
        self._held += text
        found = list[Delta]()
        while (part := self._read()) is not None:
            found += part
        return found

    def flush(self) -> list[Delta]:
        """The rest. A call whose name is not there yet is text."""
        rest, self._held = self._held, ""
        if self._read == self._arguments:
            return [ArgumentsDelta(self._calls - 1, rest)] if rest else []
        if self._read == self._end or (self._calls and not rest.strip()):
            return []
        text = OPENING + rest if self._read == self._head else rest
        return [TextDelta(text)] if text else []

    def _text(self) -> list[Delta] | None:
        before, tag, after = self._held.partition(OPENING)
        kept = len(before) - (0 if tag else _beginning_at_end(before, OPENING))
        is_gap = bool(self._calls) and not before[:kept].strip()  # the space between two calls
        if tag:
            self._held, self._read = after, self._head
        elif is_gap or not kept:
            return None
        else:
            self._held = before[kept:]
        return [TextDelta(before[:kept])] if kept and not is_gap else []

    def _head(self) -> list[Delta] | None:
        if head := _HEAD.match(self._held):
            self._held = self._held[head.end() :]
            self._calls += 1
            self._json, self._read = _JsonEnd(), self._arguments
            return [CallDelta(self._calls - 1, call_id(), json.loads(head[1], strict=False))]
        if CLOSING in self._held:
            inside, _, self._held = self._held.partition(CLOSING)
            self._read = self._text
            return self._whole(inside)
        if _PROMISING.match(self._held):
            return None
        self._read = self._text
        return [TextDelta(OPENING)]

    def _arguments(self) -> list[Delta] | None:
        if not self._held:
            return None
        end = self._json.find(self._held)
        text, self._held = self._held[:end], self._held[end:]
        if self._json.is_complete:
            self._read = self._end
        return [ArgumentsDelta(self._calls - 1, text)]

    def _end(self) -> list[Delta] | None:
        """The call's last brace and its closing tag; a model may leave either out."""
        rest = self._held.lstrip().removeprefix("}").lstrip()
        if not rest or (CLOSING.startswith(rest) and rest != CLOSING):
            return None
        self._held, self._read = rest.removeprefix(CLOSING), self._text
        return []

    def _whole(self, inside: str) -> list[Delta]:
        """A call whose parts stand in another order."""
        try:
            call = json.loads(inside, strict=False)
            name, arguments = call["name"], call.get("arguments", call.get("parameters", {}))
        except (ValueError, KeyError, TypeError, AttributeError):
            return [TextDelta(OPENING + inside + CLOSING)]
        self._calls += 1
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return [CallDelta(self._calls - 1, call_id(), str(name)), ArgumentsDelta(self._calls - 1, written)]


class _JsonEnd:
    """Finds the end of a JSON object that comes in parts."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._is_escaped = False
        self.is_complete = False

    def find(self, text: str) -> int:
        """How much of this text belongs to the object."""
        for place, character in enumerate(text):
            if self._in_string:
                self._string(character)
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.is_complete = True
                    return place + 1
        return len(text)

    def _string(self, character: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif character == "\\":
            self._is_escaped = True
        else:
            self._in_string = character != '"'


def call_id() -> str:
    """A new call's id."""
    return f"call_{secrets.token_hex(12)}"


def _beginning_at_end(text: str, tag: str) -> int:
    """Length of the longest end of `text` that begins the tag."""
    longest = min(len(tag) - 1, len(text))
    return next((length for length in range(longest, 0, -1) if text.endswith(tag[:length])), 0)
