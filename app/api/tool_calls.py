"""Finds tool calls in a model's reply while it is written; here in the Hermes form (`tool_syntax.py` has others).

    Let me look.<tool_call>
    {"name": "weather", "arguments": {"city": "Rome"}}
    </tool_call>

gives a delta of text, then one with the call's id and name, then deltas with its arguments as they come. Text that
only looks like a call stays text.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import regex

from app.api.tool_syntax import HERMES, CallSyntax
from app.values.dataclass_json import parse_json

OPENING, CLOSING = "<tool_call>", "</tool_call>"
ALL = "all\n"
"""In Functionary's format, the recipient that marks plain text instead of a call."""
NO_SCHEMAS: Mapping[str, Any] = MappingProxyType({})
_PROMISING = regex.compile(r'\s*(\{\s*("|$)|$)')
"""Matches text that may become a call: the beginning of an object, or only blanks."""
_PARAMETER = regex.compile(r"\s*<parameter=(?P<key>[^>\n]+)>\n?(?P<value>.*?)\n?</parameter>", regex.DOTALL)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A further part of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A call's beginning: its index among the reply's calls, its id and its name."""

    place: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """A further part of the arguments of a call."""

    place: int
    text: str


Delta = TextDelta | CallDelta | ArgumentsDelta


@dataclass(slots=True)
class WrittenCall:
    id: str
    name: str
    arguments: str = ""


@dataclass(slots=True)
class ParsedReply:
    """A reply's text and calls, put together from its deltas."""

    text: str = ""
    calls: list[WrittenCall] = field(default_factory=list)

    def add(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                self.text += text
            case CallDelta(_, call, name):
                self.calls.append(WrittenCall(call, name))
            case ArgumentsDelta(place, text):
                self.calls[place].arguments += text


class TextParser:
    """Reads a reply without tools: all of it is text."""

    def push(self, text: str) -> list[Delta]:
        """Return the text as a delta."""
        return [TextDelta(text)] if text else []

    def flush(self, _is_cut: bool = False) -> list[Delta]:
        """Return nothing, because nothing is held back."""
        return []


class ToolCallParser:
    """Reads text with calls in it: text, a call's head, its arguments and its tail, in turn."""

    def __init__(self, syntax: CallSyntax = HERMES, schemas: Mapping[str, Any] = NO_SCHEMAS) -> None:
        """Take the syntax, and the JSON schemas of the functions' arguments by function name."""
        self._syntax = syntax
        self._schemas = schemas
        self._held = ""
        self._calls = 0
        self._json = _JsonEnd()
        self._opened = ""  # the opening before a head; it is text if no head follows
        self._given: dict[str, Any] = {}
        self._name = ""
        self._is_begun = False
        self._read = self._first

    def push(self, text: str) -> list[Delta]:
        """Return the deltas of this text.

        The beginning of a tag or of a call is held back until more text comes."""
        self._held += text
        found = list[Delta]()
        while (part := self._read()) is not None:
            found += part
        return found

    def flush(self, is_cut: bool = False) -> list[Delta]:
        """Return what is left at the end.

        A call that ended before its name is text; if the reply `is_cut`, it is dropped."""
        rest, self._held = self._held, ""
        if self._read == self._arguments:
            return [ArgumentsDelta(self._calls - 1, rest)] if rest else []
        if self._read in (self._tail, self._parameters) or (self._calls and not rest.strip()):
            return []
        if is_cut and self._opened and self._read == self._head:
            return []
        text = self._opened + rest if self._read == self._head else rest
        return [TextDelta(text)] if text else []

    def _first(self) -> list[Delta] | None:
        """Decide from the reply's beginning whether it starts with text or with a call; None if more text is
        needed."""
        start = self._held.lstrip()
        if self._syntax.is_open:
            if ALL.startswith(self._held):
                return None
            is_text = self._held.startswith(ALL)
            self._held = self._held.removeprefix(ALL)
            self._read = self._text if is_text else self._head
            return []
        if not start and self._syntax.is_bare:
            return None
        self._read = self._head if self._syntax.is_bare and start.startswith("{") else self._text
        return []

    def _text(self) -> list[Delta] | None:
        opening = self._syntax.opening
        before, tag, after = self._held.partition(opening)
        kept = len(before) - (0 if tag else _beginning_at_end(before, opening))
        is_gap = bool(self._calls) and not before[:kept].strip()  # the space between two calls
        if tag:
            self._held, self._read, self._opened = after, self._head, opening
        elif is_gap or not kept:
            return None
        else:
            self._held = before[kept:]
        return [TextDelta(before[:kept])] if kept and not is_gap else []

    def _head(self) -> list[Delta] | None:
        head = self._syntax.head.match(self._held, partial=True)
        if head and not head.partial:
            self._held, self._name = self._held[head.end() :], self._syntax.name_in(head)
            self._calls += 1
            self._json, self._given, self._is_begun = _JsonEnd(), {}, False
            self._read = self._parameters if self._syntax.has_parameters else self._arguments
            return [CallDelta(self._calls - 1, _call_id(), self._name)]
        if head:
            return None
        if self._syntax is HERMES and _PROMISING.match(self._held):
            inside, tag, after = self._held.partition(CLOSING)
            return self._whole(inside, after) if tag else None
        return self._no_call()

    def _no_call(self) -> list[Delta]:
        opened, self._opened = self._opened, ""
        self._read = self._text
        if self._syntax.is_bare and not opened:  # an object that is the answer
            opened, self._held = self._held, ""
        return [TextDelta(opened)] if opened else []

    def _arguments(self) -> list[Delta] | None:
        if not self._held:
            return None
        end = self._json.find(self._held)
        text, self._held = self._held[:end], self._held[end:]
        if self._json.is_complete:
            self._read = self._tail
        return [ArgumentsDelta(self._calls - 1, text)]

    def _parameters(self) -> list[Delta] | None:
        """Read an argument that has a tag of its own, and return it as JSON."""
        found = _PARAMETER.match(self._held, partial=True)
        if found and not found.partial:
            self._held = self._held[found.end() :]
            schema = (self._schemas.get(self._name) or {}).get("properties") or {}
            value = _typed(found["value"], schema.get(found["key"]))
            written = f"{_json(found['key'])}: {_json(value)}"
            start, self._is_begun = ", " if self._is_begun else "{", True
            return [ArgumentsDelta(self._calls - 1, start + written)]
        if found:
            return None
        self._read = self._tail
        return [ArgumentsDelta(self._calls - 1, "}" if self._is_begun else "{}")]

    def _tail(self) -> list[Delta] | None:
        """Skip the text that closes the call, which a model may leave out."""
        tail = self._syntax.tail.match(self._held, partial=True)
        if tail and tail.partial:
            return None
        more = False
        if tail:
            self._held, more = self._held[tail.end() :], bool(tail.groupdict().get("more"))
        else:
            self._held = self._held.lstrip().removeprefix("}")
        self._opened, self._read = "", self._head if more else self._text
        return []

    def _whole(self, inside: str, after: str) -> list[Delta]:
        """Read a complete call, whose keys may be in any order. Returns it as text if it is not a valid call."""
        self._held, self._read = after, self._text
        try:
            call = parse_json(inside, strict=False)
            name, arguments = call["name"], call.get("arguments", call.get("parameters", {}))
        except (ValueError, KeyError, TypeError, AttributeError):
            return [TextDelta(OPENING + inside + CLOSING)]
        self._calls += 1
        written = arguments if isinstance(arguments, str) else _json(arguments)
        return [CallDelta(self._calls - 1, _call_id(), str(name)), ArgumentsDelta(self._calls - 1, written)]


Parser = TextParser | ToolCallParser


def _typed(text: str, schema: Any) -> Any:
    """Parse an argument's value as JSON, unless its schema wants a string or is missing."""
    kinds = _kinds(schema)
    if "string" in kinds or not isinstance(schema, dict):
        return None if "null" in kinds and text.strip() == "null" else text
    try:
        return parse_json(text)
    except ValueError:
        return text


def _kinds(schema: Any) -> set[str]:
    """Return the types that a schema allows: its own, and those of its alternatives."""
    if not isinstance(schema, dict):
        return set()
    kind = schema.get("type")
    kinds = {one for one in (kind if isinstance(kind, list) else [kind]) if isinstance(one, str)}
    alternatives = [schema.get(name) for name in ("anyOf", "oneOf")]
    return kinds.union(*(_kinds(one) for some in alternatives if isinstance(some, list) for one in some))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class _JsonEnd:
    """Finds the end of a JSON object that comes in parts."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._is_escaped = False
        self.is_complete = False

    def find(self, text: str) -> int:
        """Return the number of characters of this text that belong to the object."""
        for place, character in enumerate(text):
            if self._is_escaped:
                self._is_escaped = False
            elif self._in_string:
                self._is_escaped = character == "\\"
                self._in_string = character != '"'
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


def _call_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _beginning_at_end(text: str, tag: str) -> int:
    """Return the length of the longest suffix of `text` that is a proper prefix of `tag`."""
    longest = min(len(tag) - 1, len(text))
    return next((length for length in range(longest, 0, -1) if text.endswith(tag[:length])), 0)
