"""Finds how a model marks its thoughts: a template that shows an earlier thought shows the markers around it.

For other templates, the markers in FORMS are tried, then the model's control tokens."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from app.values.chat_format import ReplyFormat

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


def find_thought(render: Render, controls: Collection[str] = ()) -> ReplyFormat:
    """Return a reply format with the markers around thoughts and around answers; unknown markers are "".

    `controls` are the control tokens of the model."""
    opening, closing, end = next(_around_thoughts(render), (*_named(render, controls), ""))
    answer, marks = _marks(render, opening, closing, end.partition(closing)[2] if closing else "")
    tags = answer.strip() if answer.strip() in marks else ""
    words = "" if tags or opening or not answer.strip() else answer
    return ReplyFormat(
        opening, closing, words, marks, closing and (end or closing + tags), ASIDES.get(opening, ())
    )


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
    # includes the word between two control tokens, because the word would be shown otherwise
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
        # with the line breaks that separate them from the answer
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
    opening = _opening(before, plain) or _last_line(render)
    return (opening, closing[1]) if closing and opening else None


def _opening(before: str, plain: str) -> str:
    """Return the marker at the end of the text before a thought; "" if answers without thoughts have it, too."""
    found = re.search(rf"{TAG}\w*\s*$", before)
    opening = found[0].strip() if found else ""
    return "" if plain.rstrip().endswith(opening) else opening


def _last_line(render: Render) -> str:
    """Return the prompt's last line, with which a template may begin a thought; "" if the line contains a tag."""
    line = render([ASKED], {}).rstrip().rpartition("\n")[2]
    return "" if re.search(TAG, line) else line


def _named(render: Render, controls: Collection[str]) -> tuple[str, str]:
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
