"""Finds how a model writes calls of tools, from the calls of earlier messages that its chat template shows.

    <tool_call>\\n{"name": "NAME", "arguments": {"KEY": "VALUE"}}\\n</tool_call>      one JSON object
    [TOOL_CALLS]NAME[ARGS]{"KEY": "VALUE"}                                          a name, then JSON
    <tool_call>NAME\\n<arg_key>KEY</arg_key>\\n<arg_value>VALUE</arg_value>…          a tag for each argument
    <|tool_call>call:NAME{KEY:<|"|>VALUE<|"|>}<tool_call|>                          pairs of a key and a value

One call and two calls are rendered, because what both have in common belongs to each call.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.engine.text.thought_format import (
    ANSWER,
    ASKED,
    NO_PROMPT,
    QUESTION,
    Render,
    called,
    common,
    common_end,
    common_start,
    described,
    find_thought,
)
from app.values.chat_format import ANY, HERMES, KEY, CallFormat, ReplyFormat

NAMES, IDS = ("Nprobe1", "Nprobe2"), ("idprobe01", "idprobe02")
KEYS, VALUES = ("Kprobe1", "Kprobe2"), ("Vprobe1", 73519)
ARGUMENTS: dict[str, Any] = dict(zip(KEYS, VALUES, strict=True))
PROPERTIES = {
    KEYS[0]: {"type": "string", "description": "A"},
    KEYS[1]: {"type": "integer", "description": "B"},
}
TOOLS = [described(name, PROPERTIES) for name in NAMES]
_ARRAY = replace(HERMES, before_name='{"name": "', after_arguments="}", between=", ", end="]")
PYTHONIC = CallFormat(
    "pairs", "<|tool_call_start|>[", "", "(", ")", ", ", "]<|tool_call_end|>", "", "=", ", ", '"'
)  # fmt: skip
NAMED = (
    ("List of tools: [", PYTHONIC),
    ("<|tool_call_start|>", PYTHONIC),
    ("<|tool_list_start|>", PYTHONIC),
    ("<|tool_call|>", replace(_ARRAY, begin="<|tool_call|>[")),
    ("<|tool|>", replace(_ARRAY, begin="<|tool_call|>[")),
    ("functools[", replace(_ARRAY, begin="functools[")),
    ("<tool_call>", HERMES),
)
"""(words in a prompt with tools, format of calls): formats for templates that show no earlier call."""


def find_reply(render: Render, controls: Collection[str] = ()) -> ReplyFormat:
    """Return the format of replies: of thoughts, answers and calls."""
    found = find_thought(render, controls)
    return replace(found, calls=find_calls(render, found.thought_closing))


def find_calls(render: Render, thought_closing: str) -> CallFormat:
    """Return the format of calls; its kind is "" if the template supports none."""
    prompt = render([ASKED], {"tools": TOOLS})
    shows_tools = all(name in prompt for name in NAMES)
    values = {**NO_PROMPT, "tools": TOOLS} if prompt else NO_PROMPT
    shapes = [(content, given) for content in ("", None) for given in (ARGUMENTS, json.dumps(ARGUMENTS))]
    tried = (_shown(render, values, thought_closing, *shape) for shape in shapes)
    found = next(filter(None, tried), None)
    if found and not shows_tools:
        result = {"role": "tool", "content": ANSWER, "tool_call_id": IDS[0], "name": NAMES[0]}
        if ANSWER not in render([ASKED, _calling("", _calls(ARGUMENTS)[:1]), result], NO_PROMPT):
            return CallFormat()  # a template that shows no results does not support calls
    if found is None and shows_tools:
        found = next((form for words, form in NAMED if words in prompt), None)
        shown = render([ASKED, _calling("", _calls(ARGUMENTS))], NO_PROMPT)
        found = replace(found, omits_calls=VALUES[0] not in shown) if found else None
    return replace(found, shows_tools=shows_tools) if found else CallFormat()


def _shown(
    render: Render, values: Mapping[str, Any], thought_closing: str, content: str | None, arguments: object
) -> CallFormat | None:
    """Return the format in which the template shows calls with these arguments; None if it shows none.

    `content` is the text of the messages with calls. It is None only for a template that shows no calls
    otherwise. The format then has `omits_calls`, because no message of a chat has the content None."""
    calls = _calls(arguments)

    def reply(message: Mapping[str, Any]) -> str:
        text = render([ASKED, message], values)
        return re.sub("|".join(IDS), ANY, text.rpartition(QUESTION)[2])

    plain = reply({"role": "assistant", "content": ANSWER})
    user_end = render([ASKED], values).rpartition(QUESTION)[2]
    one, two = (reply(_calling(content, calls[:count])) for count in (1, 2))
    name = one.rfind(NAMES[0])
    found = _arguments(one, name + len(NAMES[0])) if name >= 0 else None
    if found is None:
        return None
    form, end = found
    after_answer = plain.partition(ANSWER)[2]
    start = len(common_start(plain, one))
    if start < name and one.startswith(NAMES[0], start):  # "to=NAME", where an answer has "to=user"
        asked = render([ASKED], {**values, "add_generation_prompt": True})
        start = len(common_start(asked.rpartition(QUESTION)[2], one))
    before = one[start:name].rpartition(thought_closing or ANSWER)[2]
    rest = before[len(common_start(after_answer, before)) :]
    before = rest if rest.startswith("<") else before
    is_alike = user_end.strip() and one.endswith(user_end)
    turn_end = user_end if is_alike else common_end(one[end:], after_answer)
    after = one[end:].removesuffix(turn_end)
    if after_answer.strip():
        after = after.partition(after_answer.strip())[0]
    _, again, rest = two.rpartition(one[name:end])
    between = rest[: rest.rfind(NAMES[1])] if again and NAMES[1] in rest else ""
    form = replace(form, takes_text=isinstance(arguments, str), omits_calls=content is None)
    return _divided(_named(form, one, name, end), before, between, after.rstrip("\n"))


def _calling(content: str | None, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a message of the assistant with calls."""
    return {"role": "assistant", "content": content, "tool_calls": calls}


def _calls(arguments: object) -> list[dict[str, Any]]:
    """Return calls of both functions with these arguments."""
    return [called(call, name, arguments) for call, name in zip(IDS, NAMES, strict=True)]


def _arguments(text: str, start: int) -> tuple[CallFormat, int] | None:
    """Return the format of the arguments that follow a name, and their end; None if there are none."""
    places = [text.find(part, start) for part in (KEYS[0], VALUES[0], KEYS[1], str(VALUES[1]))]
    if -1 in places or places != sorted(places):
        return None
    if brace := text.rfind("{", start, places[0]) + 1:
        value, end = _json_at(text, brace - 1)
        if value == ARGUMENTS:
            return CallFormat("json", after_name=text[start : brace - 1]), end
    key, value, next_key, next_value = places
    end = next_value + len(str(VALUES[1]))
    first, second = text[key + len(KEYS[0]) : value], text[next_key + len(KEYS[1]) : next_value]
    quote = first.removeprefix(second) if first.startswith(second) else ""
    between = text[value + len(VALUES[0]) : next_key].replace(KEYS[0], KEY).removeprefix(quote)
    before_key = common_end(text[start:key], between)
    after_value = between.removesuffix(before_key)
    form = CallFormat(
        "pairs" if quote else "tags",
        after_name=text[start:key].removesuffix(before_key),
        before_key=before_key,
        after_key=second if quote else _joint(first, second),
        after_value=after_value,
        quote=quote,
    )
    closing = after_value.replace(KEY, KEYS[1])
    return form, end + (len(closing) if text.startswith(closing, end) else 0)


def _joint(first: str, second: str) -> str:
    """Return the beginning and the end that two texts have in common, with ANY between them if the texts differ."""
    if first == second:
        return first
    start = re.sub(r"\w+$", "", common(first, second))
    end = re.sub(r"^\w+", "", common(first[len(start) :][::-1], second[len(start) :][::-1])[::-1])
    return start + ANY + end


def _named(form: CallFormat, text: str, name: int, end: int) -> CallFormat:
    """Return the format, with the kind "object" and the object's keys if a whole call is a JSON object."""
    if form.kind != "json":
        return form
    for brace in (found.start() for found in re.finditer(r"\{", text[:name])):
        value, stop = _json_at(text, brace)
        if stop > end and isinstance(value, dict):
            inner = value.get("function", value)
            names = [key for key, one in inner.items() if one == NAMES[0]]
            keys = [key for key, one in inner.items() if one == ARGUMENTS]
            if keys and (names or keys == [NAMES[0]]):
                arguments_key = keys[0] if names else ""
                return replace(form, kind="object", name_key="".join(names), arguments_key=arguments_key)
    return form


def _divided(form: CallFormat, first: str, second: str, after: str) -> CallFormat:
    """Return the format with the texts around calls: those of each call, and those of all calls together.

    `first` precedes the first name, `second` the second name, and `after` follows the last arguments."""
    # some templates write the name or a call's number twice
    varying = re.compile("|".join((*NAMES, r"(?<!\w)\d+(?!\w)")))
    first, second = (varying.sub(ANY, text) for text in (first, second))
    form = replace(form, after_name=varying.sub(ANY, form.after_name))
    if not second:
        return replace(form, before_name=first, after_arguments=after, can_repeat=False)
    before = common_end(first, second)
    gap = second.removesuffix(before)
    closing = common_start(gap, after)
    return replace(
        form,
        begin=first.removesuffix(before),
        before_name=before,
        after_arguments=closing,
        between=gap.removeprefix(closing),
        end=after.removeprefix(closing),
    )


def _json_at(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON that begins at `start`; return its value and its end, or (None, 0) if there is none."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, 0
