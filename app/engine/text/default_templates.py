"""Chat templates for models that bring none, by the control tokens that their vocabulary has.

<|im_start|> and <|im_end|>    ->    <|im_start|>user ⏎ Hi<|im_end|> ⏎ <|im_start|>assistant ⏎
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

TEMPLATE = """
{%- set names, ends = NAMES, ENDS %}{{- START }}
{%- for message in messages %}
    {{- BEFORE + names.get(message['role'], message['role']) + AFTER }}
    {{- message['content'] + ends.get(message['role'], END) }}
{%- endfor %}
{%- if add_generation_prompt %}{{- BEFORE + names.get('assistant', 'assistant') + AFTER }}{%- endif %}"""
FOLDING = """
{%- if messages[0]['role'] == 'system' %}
    {%- set first = messages[0]['content'] + ('\\n\\n' + messages[1]['content'] if messages[1:] else '') %}
    {%- set messages = [{'role': 'user', 'content': first}] + messages[2:] %}
{%- endif %}"""
"""Puts the system prompt before the first message, for models that were trained without one."""


class _Turns(NamedTuple):
    """How turns are written: a role between `before` and `after`, the content, the end of the turn."""

    before: str
    after: str
    end: str
    names: Mapping[str, str] = {}  # role -> how it is written
    ends: Mapping[str, str] = {}  # role -> the end of its turn, if it is another one
    start: str | None = None  # what a chat begins with, if that is not one of STARTS
    folds_system: bool = False


def default_template(tokens: Collection[str]) -> str:
    """Return the chat template that fits a model with these control tokens; "" if none is known."""
    start = next((token for token in STARTS if token in tokens), "")
    for needed, turns in KNOWN:
        if all(token in tokens for token in needed.split()):
            return _template(turns, start if turns.start is None else turns.start)
    return ""


def _template(turns: _Turns, start: str) -> str:
    filled = FOLDING * turns.folds_system + TEMPLATE
    values = {
        "NAMES": dict(turns.names), "ENDS": dict(turns.ends), "START": start,
        "BEFORE": turns.before, "AFTER": turns.after, "END": turns.end,
    }  # fmt: skip
    for name, value in values.items():
        filled = filled.replace(name, repr(value))
    return filled.lstrip("\n")


_BAR = "\uff5c"  # DeepSeek's
_DEEPSEEK = {"system": "", "user": f"<{_BAR}User{_BAR}>", "assistant": f"<{_BAR}Assistant{_BAR}>"}
_DEEPSEEK_END = f"<{_BAR}end▁of▁sentence{_BAR}>"
_COHERE = {"system": "<|SYSTEM_TOKEN|>", "user": "<|USER_TOKEN|>", "assistant": "<|CHATBOT_TOKEN|>"}
_GEMMA = {"assistant": "model"}
_MISTRAL, _MISTRAL_ENDS = {"user": "[INST]", "assistant": ""}, {"user": "[/INST]", "assistant": "</s>"}
STARTS = "<|begin_of_text|>", "<bos>", "<BOS_TOKEN>", f"<{_BAR}begin▁of▁sentence{_BAR}>", "<s>"
"""Tokens that begin a chat if the vocabulary has them."""
KNOWN = (
    ("<|im_start|> <|im_end|>", _Turns("<|im_start|>", "\n", "<|im_end|>\n")),
    (
        "<|start_header_id|> <|end_header_id|> <|eot_id|>",
        _Turns("<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>"),
    ),
    (
        "<start_of_turn> <end_of_turn>",
        _Turns("<start_of_turn>", "\n", "<end_of_turn>\n", _GEMMA, folds_system=True),
    ),
    ("<|turn> <turn|>", _Turns("<|turn>", "\n", "<turn|>\n", _GEMMA)),
    (
        "<|start_of_role|> <|end_of_role|>",
        _Turns("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n", start=""),
    ),
    (
        "<|START_OF_TURN_TOKEN|> <|USER_TOKEN|>",
        _Turns("<|START_OF_TURN_TOKEN|>", "", "<|END_OF_TURN_TOKEN|>", _COHERE),
    ),
    (
        f"{_DEEPSEEK['user']} {_DEEPSEEK['assistant']}",
        _Turns("", "", "", _DEEPSEEK, {"assistant": _DEEPSEEK_END}),
    ),
    ("[INST] [/INST]", _Turns("", "", "", _MISTRAL, _MISTRAL_ENDS, folds_system=True)),
    ("[gMASK] <sop> <|user|> <|assistant|>", _Turns("<|", "|>\n", "", start="[gMASK]<sop>")),
    ("<|user|> <|assistant|> <|end|>", _Turns("<|", "|>\n", "<|end|>\n")),
    ("<|user|> <|assistant|> </s>", _Turns("<|", "|>\n", "</s>\n")),
)
"""Tokens -> the form of a model that has all of them; the first that fits is taken."""
