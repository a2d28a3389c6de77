"""How models write calls of tools: chosen by what a model's chat template says.

    Hermes, Qwen      <tool_call>{"name": "f", "arguments": {…}}</tool_call>
    Qwen3-Coder       <tool_call><function=f><parameter=city>Rome</parameter></function></tool_call>
    Llama 3           {"name": "f", "parameters": {…}}
    Mistral           [TOOL_CALLS] [{"name": "f", "arguments": {…}}]      and later  [TOOL_CALLS]f[ARGS]{…}
    Functionary       >>>f\\n{…}                                           and later  <function=f>{…}</function>

A template that takes `tools` shows them in its own way. For any other model the Hermes form is explained in the
system prompt.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import regex

from app.values.dataclass_json import parse_json

_STRING = r'(?P<json>"(?:[^"\\]|\\.)*")'


def _pattern(source: str) -> Any:
    return regex.compile(source, regex.DOTALL)


def _json_head(before: str = "") -> Any:
    """A call as an object with its name first."""
    return _pattern(
        rf'{before}\s*\{{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*{_STRING}\s*,'
        r'\s*"(?:arguments|parameters)"\s*:\s*(?=\{)'
    )


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """A form of calls, as it is read and as a grammar forces it.

    A call is `opening`, then what `head` matches up to the arguments, the arguments, and what `tail` matches. Where
    the tail's group `more` matches another call's head follows at once. `is_bare`: a reply that begins with an
    object is a call; `is_open`: it begins behind an opening, and goes on with text where the name is `all`.

    Both are patterns of `regex`, which tells whether more text could make a match of what has no match yet.

    Written: `begin`, calls with `between` them, `end`; each is `before` and `behind` a name, arguments, `after`.
    `control` are the form's control tokens, which a text otherwise does not show."""

    opening: str
    head: Any
    tail: Any
    before: str
    behind: str
    after: str
    begin: str = ""
    between: str = "\n"
    end: str = ""
    is_bare: bool = False
    is_open: bool = False
    has_json_name: bool = True
    has_parameters: bool = False  # each argument has a tag of its own
    takes_text: bool = False  # the template wants arguments as JSON text
    can_repeat: bool = True
    control: tuple[str, ...] = ()

    def name_in(self, head: Any) -> str:
        """The name that a head matched."""
        found = head.groupdict()
        return str(parse_json(found["json"], strict=False) if "json" in found else found["name"])

    def heading(self, name: str) -> str:
        """What is written from a call's beginning to its arguments."""
        return self.before + (json.dumps(name) if self.has_json_name else name) + self.behind


HERMES = CallSyntax(
    opening="<tool_call>",
    head=_json_head(),
    tail=_pattern(r"\s*\}?\s*</tool_call>"),
    before='<tool_call>\n{"name": ',
    behind=', "arguments": ',
    after="}\n</tool_call>",
)
QWEN_CODER = CallSyntax(
    opening="<tool_call>",
    head=_pattern(r"\s*<function=(?P<name>[^>\n]+)>"),
    tail=_pattern(r"\s*</function>\s*</tool_call>"),
    before="<tool_call>\n<function=",
    behind=">\n",
    after="</function>\n</tool_call>",
    has_json_name=False,
    has_parameters=True,
)
LLAMA = CallSyntax(
    opening="<|python_tag|>",
    head=_json_head(),
    tail=_pattern(r"\s*\}"),
    before='{"name": ',
    behind=', "parameters": ',
    after="}",
    is_bare=True,
    can_repeat=False,
    control=("<|python_tag|>",),
)
MISTRAL = CallSyntax(
    opening="[TOOL_CALLS]",
    head=_json_head(r"\s*\[?"),
    tail=_pattern(r'(?:\s*,\s*"id"\s*:\s*"[^"]*")?\s*\}\s*(?:(?P<more>,)|\])'),
    before='{"name": ',
    behind=', "arguments": ',
    after="}",
    begin="[TOOL_CALLS] [",
    between=", ",
    end="]",
    control=("[TOOL_CALLS]",),
)
MISTRAL_ARGS = CallSyntax(
    opening="[TOOL_CALLS]",
    head=_pattern(r"\s*(?P<name>[\w.:-]+)\s*(?:\[CALL_ID\]\s*\w+\s*)?\[ARGS\]\s*(?=\{)"),
    tail=_pattern(""),
    before="[TOOL_CALLS]",
    behind="[ARGS]",
    after="",
    between="",
    has_json_name=False,
    control=("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
)
FUNCTIONARY = CallSyntax(
    opening=">>>",
    head=_pattern(r"(?P<name>[\w.:-]+)\n\s*(?=\{)"),
    tail=_pattern(""),
    before="",
    behind="\n",
    after="",
    between=">>>",
    is_open=True,
    has_json_name=False,
    takes_text=True,
)
FUNCTION_TAGS = CallSyntax(
    opening="<function=",
    head=_pattern(r"(?P<name>[^>\s]+)>\s*(?=\{)"),
    tail=_pattern(r"\s*</function>"),
    before="<function=",
    behind=">",
    after="</function>",
    between="",
    has_json_name=False,
    takes_text=True,
)


@dataclass(frozen=True, slots=True)
class ToolTemplate:
    """How a model is told of tools and calls them. `is_native`: by its own template."""

    syntax: CallSyntax = field(default=HERMES)
    is_native: bool = False


def tool_template(template: str) -> ToolTemplate:
    """What a chat template says; the Hermes form is explained where it says nothing, or of a form unknown here."""
    if "tools" not in template:
        return ToolTemplate()
    for syntax, words, others in _SIGNS:
        if all(word in template for word in words) and not any(other in template for other in others):
            return ToolTemplate(syntax, True)
    return ToolTemplate()


_SIGNS: tuple[tuple[CallSyntax, tuple[str, ...], tuple[str, ...]], ...] = (
    (MISTRAL_ARGS, ("[TOOL_CALLS]", "[ARGS]"), ()),
    (MISTRAL, ("[TOOL_CALLS]",), ()),
    (QWEN_CODER, ("<tool_call>", "<function=", "<parameter="), ()),
    (FUNCTION_TAGS, ("<function=",), ("<parameter=",)),
    (FUNCTIONARY, (">>>", "recipient"), ()),
    (HERMES, ("<tool_call>",), ("<arg_key>", "<function=")),
    (LLAMA, ("function name, ", "parameters", "dictionary of argument name"), ("<tool_call>",)),
)
"""Words of a template by which a form is known, and words of forms that only look like it."""
