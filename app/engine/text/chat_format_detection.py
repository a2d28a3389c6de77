"""Finds what a chat template accepts and what can be switched in it, by rendering probe messages.

A template that omits a probe's word, or raises an exception, does not accept the message. It knows a variable if
the variable's values change the prompt; the value that changes nothing is the default."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.engine.text.call_format_detection import FIELDS, NAMES, TOOLS, Render, called, common, find_reply
from app.values.chat_format import ChatFormat, ReplyFormat, ThinkingLevel, ThinkingMode

Shown = Callable[..., str]
"""(messages as arguments, variables as keywords) -> the prompt; "" if the template refuses the messages."""
SYSTEM, USER, NEXT, ANSWER, THOUGHT, UNKNOWN = (
    f"qzx{word}" for word in ("ant", "bee", "cow", "dog", "elk", "fox")
)
SWITCHES: tuple[tuple[str, Any, Any], ...] = (
    ("enable_thinking", True, False),
    ("thinking", True, False),
    ("reasoning", True, False),
    ("thinking_mode", "enabled", "disabled"),
    ("thinking_option", "on", "off"),
    ("thinking_budget", -1, 0),
)
"""The variables that may switch thinking, with the values for on and off. The first that works is used."""
EFFORTS = ("reasoning_effort", "thinking_effort", "reasoning_strength")
WORDS: Mapping[str, ThinkingLevel] = {
    "none": "off", "no_think": "off", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high",
    "max": "max",
}  # fmt: skip
"""The levels of thinking, by the words that templates use for efforts."""
PASTED = ("low", "medium", "high")
"""The efforts that are offered if a template writes any value into the prompt, because models learn these three."""
SYSTEM_WORDS: tuple[tuple[str, ThinkingLevel], ...] = (
    ("/think", "on"), ("/no_think", "off"), ("detailed thinking on", "on"), ("detailed thinking off", "off"),
)  # fmt: skip
"""Words in the system prompt that switch thinking in some models."""


def find_chat_format(render: Render, controls: Collection[str] = ()) -> ChatFormat:
    """Return the format of a chat template: what it accepts, what ends its turns, its levels of thinking, and how
    replies are written.

    `render` may raise any exception for refused messages; only MemoryError is raised again. `controls` are the
    control tokens of the model."""

    def tried(messages: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> str:
        try:
            return render(messages, values)
        except MemoryError:
            raise
        except Exception:  # templates raise exceptions of any type
            return ""

    takes_text = USER in tried([_user(USER)], {})

    def rendered(messages: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> str:
        return tried(messages if takes_text else in_parts(messages), values)

    reply = find_reply(rendered, controls)

    def shown(*messages: Mapping[str, Any], **values: Any) -> str:
        return rendered(messages, values)

    def takes(*messages: Mapping[str, Any]) -> bool:
        text = shown(*messages)
        return all(message["content"] in text for message in messages)

    if not takes(_user(USER)):
        return ChatFormat(reply)
    system = _message("system", SYSTEM)
    alone, with_tools = shown(system), shown(system, tools=TOOLS)
    lacks_tools = reply.calls.shows_tools and NAMES[0] not in with_tools
    return ChatFormat(
        reply,
        _modes(shown, reply),
        takes_system=takes(system, _user(USER)),
        takes_system_alone=SYSTEM in alone and SYSTEM in with_tools and not lacks_tools,
        takes_user_runs=takes(_user(USER), _user(NEXT)),
        takes_assistant_first=takes(_message("assistant", ANSWER), _user(USER)),
        takes_text=takes_text,
        takes_empty_call=_takes_empty_call(shown),
        takes_thought_part=_takes_thought_part(shown),
        turn_ends=_turn_ends(shown, controls),
    )


def in_parts(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages whose contents are lists of parts, as templates of vision models require."""
    return [{**one, "content": [{"type": "text", "text": one["content"]}]} for one in messages]


def _takes_empty_call(shown: Shown) -> bool:
    """Return False if the template shows a call beside the content None, and writes more for the content "".

    The template of DeepSeek-R1-Distill-Qwen then writes an empty answer after the call."""
    call = called("123456789", NAMES[0], {"a": 1})
    empty, none = (shown(_user(USER), _message("assistant", text, tool_calls=[call])) for text in ("", None))
    return NAMES[0] not in none or len(empty) <= len(none)


def _takes_thought_part(shown: Shown) -> bool:
    """Return whether the template shows a thought as a part of a content, and not under one of the names in FIELDS.

    A template that shows parts of any type writes the whole content as JSON."""

    def in_part(kind: str) -> str:
        parts = [{"type": kind, kind: THOUGHT}, {"type": "text", "text": ANSWER}]
        return shown(_user(USER), _message("assistant", parts))

    named = shown(_user(USER), _message("assistant", ANSWER, **dict.fromkeys(FIELDS, THOUGHT)))
    return THOUGHT in in_part("thinking") and THOUGHT not in in_part(UNKNOWN) + named


def _message(role: str, content: object, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def _user(content: str) -> dict[str, Any]:
    return _message("user", content)


def _turn_ends(shown: Shown, controls: Collection[str]) -> tuple[str, ...]:
    """Return the control token that ends a turn, then all control tokens between an answer and the next question.

    A turn ends with the last control token before the next turn or, if there is none, with the first control
    token of the next turn. Returns () without such a token, or if it also occurs inside a turn: gpt-oss
    writes the same token after a thought and after an answer."""
    names = re.compile(f"({'|'.join(map(re.escape, sorted(controls, key=len, reverse=True))) or '(?!)'})")
    text = shown(_user(USER), _message("assistant", ANSWER), _user(NEXT))
    before, _, rest = text.partition(USER)
    first, second = (names.split(part) for part in (before, rest.rpartition(ANSWER)[2].partition(NEXT)[0]))
    header = common(first[::-1], second[::-1])[::-1]
    after = second[: len(second) - len(header)]
    tokens = second[1::2]
    ends = [*after[1::2][-1:], *header[1 - len(after) % 2 :: 2]]
    return (ends[0], *tokens) if ends and ends[0] not in _inside(shown) else ()


def _inside(shown: Shown) -> str:
    """Return the template's own texts in turns in which the assistant thinks, answers and calls a tool."""
    call = called("123456789", "f", {"a": 1})
    thoughts = dict.fromkeys(FIELDS, THOUGHT)
    begin = _end(shown(_user(USER)))
    texts = [
        _end(shown(_user(USER), _message("assistant", ANSWER, **thoughts))),
        _end(shown(_user(USER), _message("assistant", "", tool_calls=[call], **thoughts))),
    ]
    written = [text[len(common(text, begin)) :] for text in texts]
    return "".join(text.rpartition(end)[0] for text in written for end in (THOUGHT, ANSWER, '"a"'))


def _modes(shown: Shown, reply: ReplyFormat) -> tuple[ThinkingMode, ...]:
    """Return the template's levels of thinking, its default first; () for a template without thinking."""
    default = shown(_user(USER))
    found = {default: ThinkingMode("default")}
    switched = _switched(shown)
    for level, values in (*switched, *_efforts(shown, dict(switched[:1]).get("on", {}))):
        if text := shown(_user(USER), **values):
            known = found.get(text, ThinkingMode("default"))
            level = level if known.level in ("default", "on") else known.level
            found[text] = ThinkingMode(level, "{}" if text == default else json.dumps(values))
    if len(found) == 1:
        found |= _spoken(shown)
    modes = tuple(replace(mode, opens_thought=reply.is_opened_by(text)) for text, mode in found.items())
    if len(modes) == 1 and not modes[0].opens_thought:
        return ()
    levels = {mode.level for mode in modes}
    is_on = modes[0].level == "default" and "on" not in levels and (len(modes) == 1 or "off" in levels)
    return (replace(modes[0], level="on"), *modes[1:]) if is_on else modes


def _switched(shown: Shown) -> list[tuple[ThinkingLevel, dict[str, Any]]]:
    """Return the values that switch thinking on and off; [] if no variable does."""
    for name, on, off in SWITCHES:
        first, second = shown(_user(USER), **{name: on}), shown(_user(USER), **{name: off})
        if first and second and first != second:
            return [("on", {name: on}), ("off", {name: off})]
    return []


def _efforts(shown: Shown, on: Mapping[str, Any]) -> list[tuple[ThinkingLevel, dict[str, Any]]]:
    """Return the efforts that the template knows, with their values; the values `on` switch thinking on."""
    found = list[tuple[ThinkingLevel, dict[str, Any]]]()
    for name in EFFORTS:
        unknown = shown(_user(USER), **{**on, name: UNKNOWN})
        words = PASTED if UNKNOWN in unknown else tuple(WORDS)
        tried = ((WORDS[word], {**on, name: word}) for word in words)
        found += [one for one in tried if shown(_user(USER), **one[1]) not in ("", unknown)]
    return found


def _spoken(shown: Shown) -> dict[str, ThinkingMode]:
    """Map each prompt with words of SYSTEM_WORDS to the level of thinking that the words choose.

    A word counts if it changes the end of the prompt. "detailed thinking on" and "off" also count if the default
    system prompt mentions detailed thinking."""
    end, usual = _end(shown(_message("system", SYSTEM), _user(USER))), shown(_user(USER))
    texts = ((level, word, shown(_message("system", word), _user(USER))) for word, level in SYSTEM_WORDS)
    return {
        text: ThinkingMode(level, system=word)
        for level, word, text in texts
        if text and (_end(text) != end or (" " in word and word.rpartition(" ")[0] in usual))
    }


def _end(text: str) -> str:
    return text.rpartition(USER)[2]
