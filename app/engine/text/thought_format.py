"""Finds how a model marks its thoughts: a template that shows an earlier thought shows the markers around it.

    <|im_start|>assistant\\n<think>\\nTHOUGHT\\n</think>\\n\\nANSWER<|im_end|>   ->   "<think>", "</think>"

Some templates show no thought, but name its markers to the model, or write them where a reply begins: those of
FORMS are looked for there.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from app.values.chat_format import ReplyFormat

Render = Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any]], str]
"""(messages, variables of the template) -> the prompt, or "" if the template refuses the messages."""
QUESTION, THOUGHT, ANSWER = "Qprobe", "Tprobe", "Aprobe"
ASKED = {"role": "user", "content": QUESTION}
FIELDS = ("reasoning_content", "reasoning", "thinking")
"""The names under which templates look for the thought of an earlier message."""
ON = {"enable_thinking": True, "thinking": True}
NO_PROMPT = {"add_generation_prompt": False}
SWITCHES: tuple[Mapping[str, Any], ...] = ({}, ON, {"enable_thinking": False, "thinking": False})
CALL = {"id": "call00001", "type": "function", "function": {"name": "probe", "arguments": {"city": "Rome"}}}
TOOL = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "A probe.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "A city."}},
        },
    },
}
TAG = r"(?:<[^<>\s][^<>]{0,40}>|\[[A-Z/][^\[\]]{0,40}\]|\u25c1[^\u25b7]{1,20}\u25b7)"
CHANNELS = (
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    (" to=self<|message|>", "<|eom|>"),
)
"""Openings and closings that consist of several tags."""
FORMS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought\n", "<channel|>"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"),
    ("Here is my thought process:", "Here is my response:"),
)
"""Openings and closings that a prompt may name, of templates that show no thought."""


def find_thought(render: Render) -> ReplyFormat:
    """Return a format with the markers of thoughts; both are "" if the template shows no sign of any."""
    shown = next(_around_thoughts(render), None) or _named(render)
    opening, closing = shown or ("", "")
    return ReplyFormat(opening, closing)


def _around_thoughts(render: Render) -> Iterator[tuple[str, str]]:
    """Yield the markers around a thought, for each way to show the template one."""
    plain = render([ASKED, {"role": "assistant", "content": ANSWER}], NO_PROMPT).partition(ANSWER)[0]
    for field in FIELDS:
        thinking = {"role": "assistant", "content": ANSWER, field: THOUGHT}
        calling = {**thinking, "content": "", "tool_calls": [CALL]}
        for values in ({}, ON):
            for message, tools in ((thinking, {}), (calling, {"tools": [TOOL]})):
                text = render([ASKED, message], {**NO_PROMPT, **tools, **values})
                before, is_shown, after = text.rpartition(THOUGHT)
                closing = re.match(rf"\s*({TAG})", after)
                if known := next((form for form in (*CHANNELS, *FORMS) if before.endswith(form[0])), None):
                    yield known
                elif is_shown and closing and (opening := _opening(before, plain) or _last_line(render)):
                    yield opening, closing[1]


def _opening(before: str, plain: str) -> str:
    """Return the marker at the end of the text before a thought; "" if answers without thoughts have it, too."""
    found = re.search(rf"{TAG}\w*\s*$", before)
    opening = found[0].strip() if found else ""
    return "" if plain.rstrip().endswith(opening) else opening


def _last_line(render: Render) -> str:
    """Return the words with which a template begins a thought; "" if a tag comes before the reply."""
    line = render([ASKED], {}).rstrip().rpartition("\n")[2]
    return "" if re.search(TAG, line) else line


def _named(render: Render) -> tuple[str, str] | None:
    """Return the markers of FORMS that the template names, or with which it begins or ends an empty thought."""
    prompts = [render([ASKED], values) for values in SWITCHES]
    forms = (form for form in FORMS if any(marker.strip() in text for marker in form for text in prompts))
    return next(forms, None)
