"""Finds how a model marks its thoughts and writes its calls, from earlier messages that its chat template shows.

If the template shows none, known markers are tried, then control tokens. One call and two calls are rendered,
because what both have in common belongs to each call. The kinds of calls are:

    <tool_call>\\n{"name": "NAME", "arguments": {"KEY": "VALUE"}}\\n</tool_call>      one JSON object
    [TOOL_CALLS]NAME[ARGS]{"KEY": "VALUE"}                                          a name, then JSON
    <tool_call>NAME\\n<arg_key>KEY</arg_key>\\n<arg_value>VALUE</arg_value>…          a tag for each argument
    <|tool_call>call:NAME{KEY:<|"|>VALUE<|"|>}<tool_call|>                          pairs of a key and a value
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from app.values.chat_format import ANY, HERMES, KEY, CallFormat, ReplyFormat

Texts = TypeVar("Texts", str, list[str])
Render = Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any]], str]
"""(messages, variables of the template) -> the prompt, or "" if the template refuses the messages."""
QUESTION, THOUGHT, ANSWER = "Qprobe", "Tprobe", "Aprobe"
ASKED = {"role": "user", "content": QUESTION}
FIELDS = ("reasoning_content", "reasoning", "thinking")
"""The names under which templates look for the thought of an earlier message."""
ON = {"enable_thinking": True, "thinking": True}
NO_PROMPT = {"add_generation_prompt": False}
SWITCHES: tuple[Mapping[str, Any], ...] = ({}, ON, {"enable_thinking": False, "thinking": False})
TAG = r"(?:<[^<>\s][^<>]{0,40}>|\[[A-Z/][^\[\]]{0,40}\]|\u25c1[^\u25b7]{1,20}\u25b7)"
CHANNELS = (
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    (" to=self<|message|>", "<|eom|>"),
)
"""Openings and closings that consist of several tags."""
STRAY = {
    CHANNELS[0][0]: (
        "<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>", "<|start|>assistant",
        "<|channel|>final <|constrain|>json<|message|>", "<|channel|>commentary<|message|>",
        "<|channel|>commentary to=assistant", "<|channel|>commentary", "<|channel|>analysis",
        "<|end|>", "<|return|>",
    ),
    "<|channel>thought": ("<|channel>",),
}  # fmt: skip
"""Markers that replies have but templates do not show, such as those of calls, by the opening of thoughts."""
ANSWERS = ("<response>", "</response>", "<answer>", "</answer>")
"""Markers that models write around answers if the prompt mentions them."""
HUNYUAN = ("<|extra_0|>", "<\uff5chy_User\uff5c>")
"""Control tokens of models that write the markers in ANSWERS although no prompt mentions these markers."""
ASIDES = {CHANNELS[0][0]: ("<|start|>assistant to=", "<|channel|>commentary to=")}
"""Beginnings of messages to a tool, by the opening of thoughts."""
FORMS = (
    ("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<|channel>thought", "<channel|>"),
    ("<seed:think>", "</seed:think>"), ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"), ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<reasoning>", "</reasoning>"), ("<thought>", "</thought>"),
    ("Here is my thought process:", "Here is my response:"),
)  # fmt: skip
"""Openings and closings of thoughts that a prompt may mention, even if its template shows no earlier thought."""


def find_reply(render: Render, controls: Collection[str]) -> ReplyFormat:
    """Return the format of replies: the markers around thoughts and answers ("" if unknown), and the calls.

    `controls` are the control tokens of the model."""
    opening, closing, end = next(_around_thoughts(render), (*_known_markers(render, controls), ""))
    answer, marks = _marks(render, opening, closing, end.partition(closing)[2] if closing else "")
    tags = answer.strip() if answer.strip() in marks else ""
    words = "" if tags or opening or not answer.strip() else answer
    thought_end = closing and (end or closing + tags)
    asides, calls = ASIDES.get(opening, ()), find_calls(render, closing)
    return ReplyFormat(opening, closing, words, marks, thought_end, asides, calls)


def _marks(render: Render, opening: str, closing: str, between: str) -> tuple[str, tuple[str, ...]]:
    """Return the text that opens an answer, and all markers around an answer, which are not shown."""
    asked = render([ASKED], {}).rpartition(QUESTION)[2]
    user_end = render([ASKED], NO_PROMPT).rpartition(QUESTION)[2]
    plain = render([ASKED, {"role": "assistant", "content": ANSWER}], NO_PROMPT).rpartition(QUESTION)[2]
    before, _, after = plain.partition(ANSWER)
    begin = before[len(common_start(asked, before)) :].rpartition(closing or ANSWER)[2]
    written, begin = begin, begin.removeprefix(opening).strip()
    header = between.strip().removesuffix(begin)
    turn_end = common_end(user_end, after)
    # The word between two control tokens is included, because it would be shown otherwise.
    words = re.match(rf"{TAG}\w+{TAG}", turn_end)
    end = after.removesuffix(turn_end) if begin else ""
    if begin and not end.strip():
        end = "".join(re.findall(rf"^\s*{TAG}", after))
    prompts = "\n".join(_prompts(render))
    is_wrapped = any(token in prompts for token in HUNYUAN)
    named = [mark for mark in ANSWERS if is_wrapped or mark in prompts]
    marks = (
        header + begin,
        begin,
        header,
        end.strip(),
        words[0] if words else "",
        *named,
        *STRAY.get(opening, ()),
        # some of these markers again, with the line breaks between marker and answer
        header + written.removeprefix(opening).lstrip(),
        end.rstrip(),
        *(f"\n{mark}" if mark.startswith("</") else f"{mark}\n" for mark in named),
    )
    found = tuple(dict.fromkeys(mark for mark in marks if re.search(TAG, mark)))
    return header + written, found


def _around_thoughts(render: Render) -> Iterator[tuple[str, str, str]]:
    """Yield the markers, and the text from thought to answer, for each way in which a template shows thoughts."""
    plain = render([ASKED, {"role": "assistant", "content": ANSWER}], NO_PROMPT).partition(ANSWER)[0]
    for field in FIELDS:
        thinking = {"role": "assistant", "content": ANSWER, field: THOUGHT}
        calling = {**thinking, "content": "", "tool_calls": [called("call00001", "probe", {"city": "Rome"})]}
        for values in ({}, ON):
            for message, tools in ((thinking, {}), (calling, {"tools": [described("probe", {})]})):
                text = render([ASKED, message], {**NO_PROMPT, **tools, **values})
                before, is_shown, after = text.rpartition(THOUGHT)
                if is_shown and (markers := _markers(render, before, after, plain)):
                    end, is_answered, _ = after.partition(ANSWER)
                    yield *markers, end if is_answered and markers[1] in end else ""


def _markers(render: Render, before: str, after: str, plain: str) -> tuple[str, str] | None:
    """Return the markers in the texts before and after a thought; None if there are none."""
    if known := next((form for form in (*CHANNELS, *FORMS) if before.rstrip("\n").endswith(form[0])), None):
        return known
    closing = re.match(rf"\s*({TAG})", after)
    found = re.search(rf"{TAG}\w*\s*$", before)
    opening = found[0].strip() if found else ""
    if plain.rstrip().endswith(opening):  # answers without thoughts have this tag, too
        line = render([ASKED], {}).rstrip().rpartition("\n")[2]  # this line may begin a thought
        opening = "" if re.search(TAG, line) else line
    return (opening, closing[1]) if closing and opening else None


def _known_markers(render: Render, controls: Collection[str]) -> tuple[str, str]:
    """Return the first known opening and closing of thoughts that fit the template; ("", "") if none fit.

    First FORMS are searched for markers that a prompt mentions, then for markers between which the template removes
    thoughts from earlier answers. Then CHANNELS and FORMS are searched for markers that are control tokens."""

    def answered(content: str) -> str:
        return render([ASKED, {"role": "assistant", "content": content}, ASKED], {})

    def removes(form: tuple[str, str]) -> bool:
        text = answered(form[0] + THOUGHT + form[1] + ANSWER)
        return ANSWER in text and THOUGHT not in text

    def is_of_controls(form: tuple[str, str]) -> bool:
        tags = re.findall(TAG, "".join(form))
        return bool(tags) and all(tag in controls for tag in tags)

    prompts = [*_prompts(render), answered(ANSWER)]
    named = (form for form in FORMS if any(marker.strip() in text for marker in form for text in prompts))
    known = filter(is_of_controls, (*CHANNELS, *FORMS))
    return next(chain(named, filter(removes, FORMS), known), ("", ""))


def _prompts(render: Render) -> list[str]:
    """Return the prompts of a question: with the template's default for thinking, with thinking on, and off."""
    return [render([ASKED], values) for values in SWITCHES]


def called(identity: str, name: str, arguments: object) -> dict[str, Any]:
    """Return a call of a tool, in the format of a message of the assistant."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def described(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of a tool whose arguments are all required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": "A probe.", "parameters": schema}}


def common(first: Texts, second: Texts) -> Texts:
    """Return the beginning that two texts, or two lists of texts, have in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return first[: next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))]


def common_start(first: str, second: str) -> str:
    """Return the beginning that two texts have in common, without an unfinished tag at its end."""
    start = common(first, second)
    is_cut = start not in (first, second) and start.rfind("<") > start.rfind(">")
    return start[: start.rfind("<")] if is_cut else start


def common_end(first: str, second: str) -> str:
    """Return the end that two texts have in common, without the rest of a tag at its beginning."""
    end = common(first[::-1], second[::-1])[::-1]
    befores = (first.removesuffix(end), second.removesuffix(end))
    is_cut = any(before.rfind("<") > before.rfind(">") for before in befores)
    return end.partition(">")[2] if is_cut and ">" in end else end


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
    ("<|tool|>", replace(_ARRAY, begin="<|tool_call|>[", end="]<|/tool_call|>")),
    ("functools[", replace(_ARRAY, begin="functools[")),
    ("<tool_call>", HERMES),
)
"""(words in a prompt with tools, format of calls): formats for templates that show no earlier call."""


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
        # a tag's indentation is the template's, not the model's
        text = re.sub(r" {4,}(?=\n*<)", "", render([ASKED, message], values))
        return re.sub("|".join(IDS), ANY, text.rpartition(QUESTION)[2])

    plain = reply({"role": "assistant", "content": ANSWER})
    user_end = render([ASKED], values).rpartition(QUESTION)[2]
    one, two = (reply(_calling(content, calls[:count])) for count in (1, 2))
    name = one.rfind(NAMES[0])
    found = _arguments(one, name + len(NAMES[0])) if name >= 0 else None
    if found is None or repr(arguments) in one:  # a template that pastes arguments expects JSON text
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
    _, again, rest = two.rpartition(one[name:end])
    between = rest[: rest.rfind(NAMES[1])] if again and NAMES[1] in rest else ""

    def after_calls(text: str, end: int) -> str:
        is_alike = user_end.strip() and text.endswith(user_end)
        after = text[end:].removesuffix(user_end if is_alike else common_end(text[end:], after_answer))
        return after.partition(after_answer.strip())[0] if after_answer.strip() else after

    after = after_calls(one, end)
    last = _arguments(two, two.rfind(NAMES[1])) if between else None
    if last and (longer := after_calls(two, last[1])).startswith(after):
        after = longer  # DeepSeek V3's template closes the calls only after a second one
    form = replace(form, takes_text=isinstance(arguments, str), omits_calls=content is None)
    return _divided(_named(form, one, name, end), before, between, after.rstrip("\n"))


def _calling(content: str | None, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": calls}


def _calls(arguments: object) -> list[dict[str, Any]]:
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
