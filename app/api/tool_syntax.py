"""The forms in which models write tool calls. A model's form is recognised in its chat template.

    Hermes, Qwen      <tool_call>{"name": "f", "arguments": {…}}</tool_call>
    Qwen3-Coder       <tool_call><function=f><parameter=city>Rome</parameter></function></tool_call>
    Llama 3           {"name": "f", "parameters": {…}}
    Mistral           [TOOL_CALLS] [{"name": "f", "arguments": {…}}]      and later  [TOOL_CALLS]f[ARGS]{…}
    Functionary       >>>f\\n{…}                                           and later  <function=f>{…}</function>

A template that takes `tools` shows the tools to the model in its own way. For any other template, the system prompt
explains the tools and the Hermes form.
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
    """Compile a pattern for the beginning of a call that is a JSON object with its name first."""
    return _pattern(
        rf'{before}\s*\{{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*{_STRING}\s*,'
        r'\s*"(?:arguments|parameters)"\s*:\s*(?=\{)'
    )


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """A form of tool calls, as a parser reads it and as a grammar forces it.

    A call has an `opening`, a `head` up to its arguments, the arguments, and a `tail`; if the tail's group `more`
    matches, the head of another call follows at once. Head and tail are patterns of `regex`, which reports whether
    more text could complete a match. `is_bare`: a reply that begins with an object is a call. `is_open`: a reply
    begins after an opening, and goes on with text if the name is `all`.

    A grammar writes `begin`, calls with `between` them, and `end`. Each call is `before_name`, the name,
    `after_name`, the arguments, and `after_arguments`. `control` are the form's control tokens, which a reply's
    text otherwise does not show."""

    opening: str
    head: Any
    tail: Any
    before_name: str
    after_name: str
    after_arguments: str
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
        """Return the name in a matched head."""
        found = head.groupdict()
        return str(parse_json(found["json"], strict=False) if "json" in found else found["name"])

    def heading(self, name: str) -> str:
        """Return the text of a call from its beginning up to its arguments."""
        return self.before_name + (json.dumps(name) if self.has_json_name else name) + self.after_name


HERMES = CallSyntax(
    opening="<tool_call>",
    head=_json_head(),
    tail=_pattern(r"\s*\}?\s*</tool_call>"),
    before_name='<tool_call>\n{"name": ',
    after_name=', "arguments": ',
    after_arguments="}\n</tool_call>",
)
QWEN_CODER = CallSyntax(
    opening="<tool_call>",
    head=_pattern(r"\s*<function=(?P<name>[^>\n]+)>"),
    tail=_pattern(r"\s*</function>\s*</tool_call>"),
    before_name="<tool_call>\n<function=",
    after_name=">\n",
    after_arguments="</function>\n</tool_call>",
    has_json_name=False,
    has_parameters=True,
)
LLAMA = CallSyntax(
    opening="<|python_tag|>",
    head=_json_head(),
    tail=_pattern(r"\s*\}"),
    before_name='{"name": ',
    after_name=', "parameters": ',
    after_arguments="}",
    is_bare=True,
    can_repeat=False,
    control=("<|python_tag|>",),
)
MISTRAL = CallSyntax(
    opening="[TOOL_CALLS]",
    head=_json_head(r"\s*\[?"),
    tail=_pattern(r'(?:\s*,\s*"id"\s*:\s*"[^"]*")?\s*\}\s*(?:(?P<more>,)|\])'),
    before_name='{"name": ',
    after_name=', "arguments": ',
    after_arguments="}",
    begin="[TOOL_CALLS] [",
    between=", ",
    end="]",
    control=("[TOOL_CALLS]",),
)
MISTRAL_ARGS = CallSyntax(
    opening="[TOOL_CALLS]",
    head=_pattern(r"\s*(?P<name>[\w.:-]+)\s*(?:\[CALL_ID\]\s*\w+\s*)?\[ARGS\]\s*(?=\{)"),
    tail=_pattern(""),
    before_name="[TOOL_CALLS]",
    after_name="[ARGS]",
    after_arguments="",
    between="",
    has_json_name=False,
    control=("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
)
FUNCTIONARY = CallSyntax(
    opening=">>>",
    head=_pattern(r"(?P<name>[\w.:-]+)\n\s*(?=\{)"),
    tail=_pattern(""),
    before_name="",
    after_name="\n",
    after_arguments="",
    between=">>>",
    is_open=True,
    has_json_name=False,
    takes_text=True,
)
FUNCTION_TAGS = CallSyntax(
    opening="<function=",
    head=_pattern(r"(?P<name>[^>\s]+)>\s*(?=\{)"),
    tail=_pattern(r"\s*</function>"),
    before_name="<function=",
    after_name=">",
    after_arguments="</function>",
    between="",
    has_json_name=False,
    takes_text=True,
)


@dataclass(frozen=True, slots=True)
class ToolTemplate:
    """How a model learns of tools and calls them. `is_native`: its own chat template writes the tools."""

    syntax: CallSyntax = field(default=HERMES)
    is_native: bool = False


def tool_template(template: str) -> ToolTemplate:
    """Recognise the form of tool calls in a chat template; if it has no known form, the Hermes form is
    explained."""
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
"""For each form, the words that a template of it has, and the words that it does not have."""
