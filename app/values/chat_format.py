"""Values about a model's chat template, its levels of thinking, and the format of the model's replies.

The engine finds them when it loads a model, by rendering the model's chat template with probe messages.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from app.values.dataclass_json import json_text, parse_json
from app.values.validation import require, require_one_of

OPENING, CLOSING = "<think>", "</think>"
"""The tags around a reply's thought in the app, whatever the model's own markers are."""
ThinkingLevel = Literal["default", "off", "on", "minimal", "low", "medium", "high", "max"]
"""How much a model thinks before it answers; "default" leaves it to the chat template."""
AMOUNTS: Mapping[str, int] = MappingProxyType(
    {"off": 0, "minimal": 1, "low": 2, "medium": 3, "on": 3, "default": 3, "high": 4, "max": 5}
)
"""The order of the levels. If a template lacks the chosen level, the nearest level that it has is used."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """A user's choice for a reply: a level, and the thought's maximum number of tokens (`budget`; 0: no limit)."""

    level: ThinkingLevel = "default"
    budget: int = 0

    def __post_init__(self) -> None:
        require_one_of(ThinkingLevel, "thinking", self.level)
        require(self.budget >= 0, "the thinking budget must not be negative", self.budget)


DEFAULT_THINKING = Thinking()


@dataclass(frozen=True, slots=True)
class ThinkingMode:
    """A level that a chat template offers. `values` is a JSON object of variables for the template, and `system` a
    text that is added to the system prompt.

    With `opens_thought` the prompt ends inside a thought, so that the reply begins without the opening marker."""

    level: ThinkingLevel
    values: str = "{}"
    opens_thought: bool = False
    system: str = ""


def main_template(named: Mapping[str, Any]) -> Any:
    """Return a model's template for chats without tools: "default" or "chat", else the first; "" if it has none."""
    return named.get("default") or named.get("chat") or next(iter(named.values()), "")


ANY, KEY = "\0", "\1"
"""Placeholders in the texts of a CallFormat: ANY for an id or a number, KEY for an argument's key if the
format repeats it after the value."""
CallKind = Literal["", "object", "json", "tags", "pairs"]


@dataclass(frozen=True, slots=True)
class CallFormat:
    """How a reply writes calls of tools: `begin`, the calls with `between` them, `end`.

    A call is `before_name`, the name, `after_name`, the arguments, and `after_arguments`. The `kind` says how the
    arguments are written:

        "object"    the call is a JSON object with the name under `name_key` and the arguments under
                    `arguments_key`; without `name_key` the name is the key of the arguments
        "json"      the arguments are a JSON object after the name
        "tags"      each argument is `before_key`, its key, `after_key`, its value as plain text, and `after_value`
        "pairs"     the same, but strings are enclosed in `quote`, and `after_value` separates the arguments
        ""          there are no calls

    With `takes_text` the template expects arguments as JSON text; with `shows_tools` it describes the tools itself;
    with `can_repeat` a message may have several calls. With `omits_calls` it leaves out the calls of earlier
    messages, so they have to be written into the texts of these messages."""

    kind: CallKind = ""
    begin: str = ""
    before_name: str = ""
    after_name: str = ""
    after_arguments: str = ""
    between: str = ""
    end: str = ""
    before_key: str = ""
    after_key: str = ""
    after_value: str = ""
    quote: str = ""
    name_key: str = ""
    arguments_key: str = ""
    takes_text: bool = False
    shows_tools: bool = False
    can_repeat: bool = True
    omits_calls: bool = False

    def __post_init__(self) -> None:
        require_one_of(CallKind, "call kind", self.kind)

    @property
    def opening(self) -> str:
        """The tag or the word at the beginning of a call, by which a call is found; "" if there is none."""
        start = self.begin + self.before_name
        if self.kind == "object":
            start = start.partition("{")[0].rstrip("[ \n")
        before, _, after = start.partition(ANY)
        found = re.match(r"\s*(<[^<>\s]+>\w*|\[[A-Z_]+\]|\S+)", before if before.strip() else after)
        return found[1] if found else ""

    def written(self, calls: Iterable[tuple[str, str]]) -> str:
        """Write calls, which are given as names and JSON arguments; "" if there are none."""
        ends = self.before_name, self.after_name, self.after_arguments
        texts = [f"{ends[0]}{name}{ends[1]}{self._arguments(given)}{ends[2]}" for name, given in calls]
        whole = self.begin + self.between.join(texts) + self.end if texts else ""
        return whole.replace(ANY, "1")

    def _arguments(self, given: str) -> str:
        """Write the arguments of a call. Arguments that are not valid JSON become a string."""
        value: Any = given
        with suppress(ValueError):
            value = parse_json(given or "{}")
        if self.kind not in ("pairs", "tags") or not isinstance(value, dict):
            return json_text(value)
        heads = [(f"{self.before_key}{key}{self.after_key}", key, one) for key, one in value.items()]
        if self.kind == "pairs":
            return self.after_value.join(head + self.value_text(one) for head, _, one in heads)
        return "".join(
            head + (one if isinstance(one, str) else json_text(one)) + self.after_value.replace(KEY, key)
            for head, key, one in heads
        )

    @property
    def has_own_values(self) -> bool:
        """Whether values are not JSON: strings are enclosed in the format's own quote, and keys have no quotes."""
        return self.kind == "pairs" and len(self.quote) > 1

    def value_text(self, value: Any) -> str:
        """Write a value of an argument in "pairs"."""
        if self.has_own_values and isinstance(value, str):
            return f"{self.quote}{value}{self.quote}"
        if self.has_own_values and isinstance(value, dict):
            members = (f"{key}{self.after_key}{self.value_text(one)}" for key, one in value.items())
            return f"{{{self.after_value.join(members)}}}"
        if self.has_own_values and isinstance(value, list):
            return f"[{self.after_value.join(map(self.value_text, value))}]"
        return json_text(value)

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts around the values of a call in this format."""
        around = (self.begin, self.before_name, self.after_name, self.after_arguments, self.between, self.end)
        return (*around, self.before_key, self.after_key, self.after_value, self.quote)

    @property
    def end_tag(self) -> str:
        """The tag with which calls end; "" if they end without a tag."""
        return "".join(re.findall(r"<[^<>]+>\s*$", (self.after_arguments + self.end).rstrip())[:1])


HERMES = CallFormat(
    "object",
    before_name='<tool_call>\n{"name": "',
    after_name='", "arguments": ',
    after_arguments="}\n</tool_call>",
    between="\n",
    name_key="name",
    arguments_key="arguments",
)
"""The format that models know best. The prompt explains it to models whose template shows no calls."""


@dataclass(frozen=True, slots=True)
class ReplyFormat:
    """How a reply marks its thought and its calls; the markers are "" for a model that does not think.

    `thought_end` is all of the text between a thought and its answer, and `marks` are all texts around an answer
    that are not shown. `answer_opening` is a hidden text at the beginning of replies without a thought. `asides`
    are texts that begin messages to a tool. Such messages are not shown, unless they have the format of `calls`."""

    thought_opening: str = ""
    thought_closing: str = ""
    answer_opening: str = ""
    marks: tuple[str, ...] = ()
    thought_end: str = ""
    asides: tuple[str, ...] = ()
    calls: CallFormat = field(default_factory=CallFormat)

    @property
    def thought_markers(self) -> tuple[str, ...]:
        return (self.thought_opening, self.thought_closing, *self.marks, *self.asides)

    @property
    def answer_header(self) -> str:
        """The mark between a thought and its answer; "" if there is none."""
        header = self.thought_end.removeprefix(self.thought_closing).strip()
        return header if header in self.marks else ""

    def is_opened_by(self, prompt: str) -> bool:
        """Return whether a prompt ends inside a thought, so that the reply begins without the opening marker."""
        opening = self.thought_opening.strip()
        return bool(opening) and prompt.rstrip().endswith(opening)


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """The properties of a model's chat template.

    `modes` are the levels of thinking that can be chosen, the template's own default first. A template without
    levels has at most one mode, which says whether its prompt opens a thought. The `takes_…` fields are False for
    what the template refuses or omits: a system message; a system message without a question; several messages of
    the user in a row; a chat that begins with the assistant; a content that is a text instead of a list of parts.
    Without `takes_empty_call` the template writes an empty answer for an empty text beside calls, but not for None.
    With `takes_thought_part` it shows thoughts only as parts of a content, of the type "thinking".
    `turn_ends` are the control tokens after an assistant's message, beginning with the token that ends it."""

    reply: ReplyFormat = field(default_factory=ReplyFormat)
    modes: tuple[ThinkingMode, ...] = ()
    takes_system: bool = True
    takes_system_alone: bool = True
    takes_user_runs: bool = True
    takes_assistant_first: bool = True
    takes_text: bool = True
    takes_empty_call: bool = True
    takes_thought_part: bool = False
    turn_ends: tuple[str, ...] = ()

    def mode(self, level: ThinkingLevel) -> ThinkingMode:
        """Return the mode of this level, or of the nearest level that the template has."""
        if level == "default" or not self.modes:
            return self.modes[0] if self.modes else ThinkingMode("default")

        def distance(mode: ThinkingMode) -> tuple[bool, int, int]:
            amount = AMOUNTS[mode.level]
            return mode.level != level, abs(amount - AMOUNTS[level]), -amount

        return min(self.modes, key=distance)


UNKNOWN_FORMAT = ChatFormat()
"""The format of a model that is not loaded, or has no chat template."""


def beginning_at_end(text: str, markers: Collection[str]) -> int:
    """Return the length of the longest suffix of `text` that begins a marker: ("so EN", ["END"]) -> 2."""
    longest = max(map(len, markers), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(marker.startswith(text[-length:]) for marker in markers):
            return length
    return 0


def first_marker(text: str, markers: Collection[str]) -> tuple[int, str]:
    """Return the position of the first marker, and the longest marker that begins there.

    If there is no marker yet, or if more text could complete an earlier or a longer marker, the marker is "". The
    position is then the end of the text that certainly contains no marker."""
    places = {marker: place for marker in markers if (place := text.find(marker)) >= 0}
    begun = len(text) - beginning_at_end(text, markers)
    first = min(places.values(), default=len(text))
    rest = text[first:]
    if begun < first or not places or any(len(one) > len(rest) and one.startswith(rest) for one in markers):
        return min(begun, first), ""
    return first, max((marker for marker, place in places.items() if place == first), key=len)
