"""Splits a reply into deltas of thought, text and tool calls while it is written.

Calls are found in the model's own format. Text that only looks like a call stays text."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import regex

from app.conversation.thought_parsing import ThoughtFold
from app.conversation.tool_call_patterns import call_patterns, loose_json, member_schema, value_end
from app.values.chat_format import HERMES, CallFormat, first_marker
from app.values.dataclass_json import json_text, parse_json

NO_SCHEMAS: Mapping[str, Any] = MappingProxyType({})
_PROMISING = regex.compile(r'\s*\[?\s*(\{\s*("|$)|$)')
"""Matches text that may become a call: the beginning of an object, or only blanks."""


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A call's beginning: its index among the reply's calls, its id and its name."""

    place: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    place: int
    text: str


Delta = ThoughtDelta | TextDelta | CallDelta | ArgumentsDelta
"""A further part of a reply: of the thought before the answer, of the answer, or of a call."""


@dataclass(slots=True)
class WrittenCall:
    id: str
    name: str
    arguments: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether the arguments are not valid JSON, for example because they were cut off."""
        try:
            parse_json(self.arguments)
        except ValueError:
            return True
        return False

    @property
    def arguments_object(self) -> Any:
        """The parsed arguments; {} if they are empty or were cut off."""
        with suppress(ValueError):
            return parse_json(self.arguments) or {}
        return {}


@dataclass(slots=True)
class ParsedReply:
    """A reply's thought, text and calls, joined from its deltas. The caller sets `thought_end`, the position in the
    reply at which the thought ends."""

    text: str = ""
    calls: list[WrittenCall] = field(default_factory=list)
    thought: str = ""
    thought_end: int = 0

    def add(self, delta: Delta) -> None:
        match delta:
            case ThoughtDelta(text):
                self.thought += text
            case TextDelta(text):
                self.text += text
            case CallDelta(_, call, name):
                self.calls.append(WrittenCall(call, name))
            case ArgumentsDelta(place, text):
                self.calls[place].arguments += text


class TextParser:
    """Reads a text without thoughts and calls: all of it is the answer."""

    thought_end = 0

    def push(self, text: str) -> list[Delta]:
        return [TextDelta(text)] if text else []

    def flush(self, _is_cut: bool = False) -> list[Delta]:
        return []


class ReplyParser:
    """Reads a reply, or the rest of a reply that has `begun`: its thought, then its answer with calls.

    Text in a thought that looks like a call is a call only if the thought is never closed."""

    def __init__(self, answer: "ToolCallParser | TextParser", begun: str = "") -> None:
        self._fold, self._answer, self._begun = ThoughtFold(), answer, len(begun)
        self._fold.push(begun)
        self.openings = answer.openings if isinstance(answer, ToolCallParser) else ()
        self._held = ""  # the end of the thought, which may be a call

    @property
    def thought_end(self) -> int:
        """The position of the thought's end in the text after the begun reply."""
        return max(0, self._fold.end - self._begun)

    def push(self, text: str) -> list[Delta]:
        """Return the deltas of this text, as far as they are certain."""
        thought, answer = self._fold.push(text)
        found = self._thought(thought, not self._fold.is_thinking)
        return found + (self._answer.push(answer) if answer else [])

    def flush(self, is_cut: bool = False) -> list[Delta]:
        """Return the remaining deltas at the end of the reply."""
        was_thinking = self._fold.is_thinking
        thought, answer = self._fold.flush()
        found = self._thought(thought, not was_thinking) + self._answer.push(answer)
        if self._held:
            called = self._answer.push(self._held) + self._answer.flush(is_cut)
            has_call = any(isinstance(delta, CallDelta) for delta in called)
            return found + (called if has_call else [ThoughtDelta(self._held)])
        return found + self._answer.flush(is_cut)

    def _thought(self, text: str, is_closed: bool) -> list[Delta]:
        """Return a part of the thought. Until the thought is closed, text that may be a call is held back."""
        text, kept = self._held + text, len(self._held + text)
        if not is_closed:
            kept = first_marker(text, self.openings)[0]
        shown, self._held = text[:kept], text[kept:]
        return [ThoughtDelta(shown)] if shown else []


class ToolCallParser:
    """Reads text with calls in it: text, a call's head, its arguments and its tail, in turn."""

    def __init__(self, form: CallFormat = HERMES, schemas: Mapping[str, Any] = NO_SCHEMAS) -> None:
        """Make a parser for calls in this format. `schemas` maps functions' names to their arguments' schemas."""
        self._patterns = call_patterns(form)
        self._form = form
        self._schemas = schemas
        self._held = ""
        self._calls = 0
        self._json = _JsonEnd()
        self._opened = ""  # the opening before a head; it is text if no head follows
        self._name = ""
        self._ending = list[str]()
        self._is_begun = self._is_flushing = self._has_text = False
        self._read = self._first

    @property
    def openings(self) -> tuple[str, ...]:
        """The texts with which a call begins."""
        return self._patterns.openings

    def push(self, text: str) -> list[Delta]:
        """Return the deltas of this text.

        The beginning of a tag or of a call is held back until more text comes."""
        self._held += text
        found = list[Delta]()
        while (part := self._read()) is not None:
            found += part
        return found

    def flush(self, is_cut: bool = False) -> list[Delta]:
        """Return the remaining deltas at the end of the reply.

        A call without a complete name is text, unless it directly follows another call. If the reply `is_cut`, such
        a call is dropped if its tag was found. An incomplete argument in tags is dropped, and leaves the arguments
        invalid."""
        if is_cut and self._opened and self._read == self._head:
            self._held, self._read = "", self._text
        # what is held after a call may only be the beginning of a marker
        is_marker = self._read in (self._tail, self._more, self._end) and not self._patterns.is_open
        self._is_flushing = not is_cut
        found = self.push("")
        rest, self._held = self._held, ""
        if is_marker and self._read == self._text:
            return [one for one in found if not isinstance(one, TextDelta)]
        if self._read == self._arguments:
            return [*found, ArgumentsDelta(self._calls - 1, rest)] if rest else found
        if self._read in (self._tail, self._parameters, self._pairs, self._more, self._end) or (
            self._calls and not rest.strip()
        ):
            return found
        text = self._opened + rest if self._read == self._head else rest
        return [*found, TextDelta(text)] if text else found

    def _first(self) -> list[Delta] | None:
        """Decide whether the reply begins with text or a call. Returns None if more text is needed."""
        start = self._held.lstrip()
        if not start:
            return None
        is_call = self._patterns.is_open or (self._patterns.is_bare and start[0] in "{[")
        self._read = self._head if is_call else self._text
        return []

    def _text(self) -> list[Delta] | None:
        kept, tag = first_marker(self._held, self.openings)
        before = self._held[:kept]
        # The space before a reply's first text is dropped if a call follows.
        is_gap = not before.strip() and not self._has_text
        if not tag and (not kept or (is_gap and not self._is_flushing)):
            return None
        self._held = self._held[kept:]
        if tag:
            is_first = tag == self.openings[0]
            self._opened, self._read = tag if is_first else "", self._head
            self._held = self._held.removeprefix(tag) if is_first else self._held
        if not before or (is_gap and tag):
            return []
        self._has_text = True
        return [TextDelta(before)]

    def _head(self) -> list[Delta] | None:
        head = self._patterns.head.match(self._held, partial=not self._is_flushing)
        if head and head.partial:
            return None
        if head:
            return self._begun(head) if self._is_known(self._patterns.name_in(head)) else self._no_call()
        if self._form.kind == "object" and _PROMISING.match(self._held):
            return self._whole()
        return self._no_call()

    def _is_known(self, name: str) -> bool:
        """Return whether an object with this name is a call. Without a tag before it, the name must be
        that of a tool, if any tools are known."""
        return bool(self._opened) or not self._patterns.is_bare or not self._schemas or name in self._schemas

    def _begun(self, head: Any) -> list[Delta]:
        self._held, self._name = self._held[head.end() :], self._patterns.name_in(head)
        self._json, self._is_begun = _JsonEnd(), False
        self._read = {"tags": self._parameters, "pairs": self._pairs}.get(self._form.kind, self._arguments)
        return [self._called(self._name)]

    def _called(self, name: str) -> CallDelta:
        self._calls += 1
        return CallDelta(self._calls - 1, f"call_{secrets.token_hex(12)}", name)

    def _no_call(self) -> list[Delta]:
        opened, self._opened = self._opened, ""
        self._read = self._text
        if not opened:  # an object that is the answer, or a tag that is only mentioned
            kept = len(self._held) if self._patterns.is_bare else 1
            opened, self._held = self._held[:kept], self._held[kept:]
        self._has_text = True
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
        found = self._patterns.parameter.match(self._held, partial=True)
        if found and not found.partial:
            self._held = self._held[found.end() :]
            schema = member_schema(self._schemas.get(self._name), found["key"])
            return self._argument(found["key"], self._patterns.value(found, schema))
        is_last = self._is_flushing and not self._held.strip()
        return self._ended() if found is None or is_last else None

    def _pairs(self) -> list[Delta] | None:
        """Read an argument that ends at a separator, and return it as JSON."""
        found = self._patterns.parameter.match(self._held, partial=True)
        if found is None:
            return self._ended()
        ends = self._form.after_value.strip()[:1] + self._form.after_arguments.strip()[:1]
        end = -1 if found.partial else value_end(self._held[found.end() :], self._form.quote, ends)
        if end < 0:
            return None
        text = self._held[found.end() : found.end() + end]
        self._held = self._held[found.end() + end :].removeprefix(ends[:1])
        try:
            value = parse_json(loose_json(text, self._form.quote))
        except ValueError:
            value = text
        return self._argument(found["key"].strip('"'), value)

    def _argument(self, key: str, value: Any) -> list[Delta]:
        start, self._is_begun = ", " if self._is_begun else "{", True
        return [ArgumentsDelta(self._calls - 1, f"{start}{json_text(key)}: {json_text(value)}")]

    def _ended(self) -> list[Delta]:
        self._read = self._tail
        return [ArgumentsDelta(self._calls - 1, "}" if self._is_begun else "{}")]

    def _tail(self) -> list[Delta] | None:
        """Skip the text that closes the call, which a model may leave out."""
        tail = self._patterns.tail.match(self._held, partial=not self._is_flushing)
        if tail and tail.partial:
            return None
        if tail:
            self._held = self._held[tail.end() :]
        elif self._form.kind == "object":
            # The closing brace may be here although the tag after it is missing.
            self._held = self._held.lstrip().removeprefix("}")
        self._opened, self._read = "", self._more
        return []

    def _more(self) -> list[Delta] | None:
        """Read the head of another call, or begin to skip what ends all calls."""
        found = self._patterns.more.match(self._held, partial=not self._is_flushing)
        if found and found.partial:
            return None
        self._ending = list(self._patterns.end)
        self._read = self._end
        return self._begun(found) if found else []

    def _end(self) -> list[Delta] | None:
        """Skip the next part of the text that ends all calls, or the space after it. A model may omit the part."""
        rest = self._held.lstrip()
        if self._ending and self._ending[0].startswith(rest[: len(self._ending[0])]):
            if len(rest) < len(self._ending[0]):
                return None
            self._held = rest[len(self._ending.pop(0)) :]
            return []
        self._held = rest
        if not rest:
            return None
        self._read = self._text
        return []

    def _whole(self) -> list[Delta] | None:
        """Read a complete call, whose keys may be in any order. Returns an invalid call as text."""
        start = self._held.find("{")
        scan = _JsonEnd()
        end = start + scan.find(self._held[start:]) if start >= 0 else 0
        if not scan.is_complete:
            return self._no_call() if self._is_flushing else None
        try:
            call = parse_json(self._held[start:end], strict=False)
            inner = call.get("function", call)  # an object with name and arguments, or only the name
            inner = {**call, "name": inner} if isinstance(inner, str) else inner
            name, arguments = _name_and_arguments(inner, self._form)
        except (ValueError, KeyError, TypeError, AttributeError):
            return self._no_call()
        if not self._is_known(str(name)):
            return self._no_call()
        self._held, self._read, self._opened = "}" + self._held[end:], self._tail, ""
        written = arguments if isinstance(arguments, str) else json_text(arguments)
        return [self._called(str(name)), ArgumentsDelta(self._calls - 1, written)]


Parser = TextParser | ReplyParser


def _name_and_arguments(call: Mapping[str, Any], form: CallFormat) -> tuple[Any, Any]:
    if not form.name_key:
        return next(iter(call.items()))
    given = (call.get(key) for key in (form.arguments_key, "arguments", "parameters"))
    return call.get(form.name_key) or call["name"], next((one for one in given if one is not None), {})


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
