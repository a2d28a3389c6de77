"""Tools in a prompt, in the Hermes form, and grammars that force a call or a form of the answer.

Models that were trained with tools (Qwen, Hermes, many others) know the form; for the others it is explained.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.errors import ApiError
from app.api.tool_calls import CLOSING, OPENING, ReplyParser, TextParser, ToolCallParser
from app.logits_settings import Grammar

EXPLAINED = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML \
tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""
ANYTHING = {"type": "object"}
NOTHING = {"type": "object", "properties": {}}
MOST_CALLS = 8
"""Calls of a reply that must have calls, and may have several."""
WHITESPACE = {"x-guidance": {"whitespace_pattern": "[ \\n]?"}}


class FunctionFields(BaseModel):
    """A function that the client can call."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolFields(BaseModel):
    """A tool."""

    type: Literal["function"] = "function"
    function: FunctionFields


class ResponseFormat(BaseModel):
    """The form of the answer. `regex` and `grammar` (in Lark's form) are Foresight's own."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["text", "json_object", "json_schema", "regex", "grammar"] = "text"
    json_schema: dict[str, Any] | None = None
    regex: str | None = None
    grammar: str | None = None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools that a reply may use; `forced` are those of which it must use one."""

    offered: tuple[FunctionFields, ...] = ()
    forced: tuple[FunctionFields, ...] = ()
    most_calls: int = 1
    form: Grammar | None = field(default=None)

    def parser(self) -> ReplyParser:
        """A reader of the reply."""
        return ToolCallParser() if self.offered else TextParser()

    @property
    def prompt(self) -> str:
        """What the system prompt says of the tools."""
        if not self.offered:
            return ""
        shown = [
            {"type": "function", "function": one.model_dump(exclude_none=True, exclude={"strict"})}
            for one in self.offered
        ]
        return EXPLAINED.format(tools="\n".join(json.dumps(one, ensure_ascii=False) for one in shown))

    @property
    def grammar(self) -> Grammar | None:
        """What the reply has to match: a call where one is forced, else the form, or a call."""
        if self.forced:
            return Grammar("lark", _calls_grammar(self.forced, self.most_calls))
        if self.form is None or not self.offered or self.form.kind != "json_schema":
            return self.form
        calls = _calls_grammar(self.offered, MOST_CALLS).replace("start:", "calls:", 1)
        return Grammar(
            "lark", f"start: form | calls\nform: {_json_rule(json.loads(self.form.source))}\n{calls}"
        )


def tool_use(
    tools: Sequence[FunctionFields], choice: Any, is_parallel: bool | None, form: Grammar | None
) -> ToolUse:
    """What tool_choice makes of the tools. Raises ApiError."""
    offered = tuple(tools)
    named = _named(choice)
    if named is not None:
        forced = tuple(one for one in offered if one.name == named)
        if not forced:
            raise ApiError(f"tool_choice names {named!r}, which is none of the tools.", "tool_choice")
        return ToolUse(offered, forced, 1, form)
    if choice == "none":
        return ToolUse(form=form)
    if choice in ("required", "any"):
        if not offered:
            raise ApiError("tool_choice requires a call, and there are no tools.", "tool_choice")
        return ToolUse(offered, offered, MOST_CALLS if is_parallel else 1, form)
    if choice not in (None, "auto"):
        raise ApiError("tool_choice must be none, auto, required, or name a function.", "tool_choice")
    return ToolUse(offered, form=form)


def _named(choice: Any) -> str | None:
    if not isinstance(choice, dict):
        return None
    function = choice.get("function", choice)
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise ApiError(
            "tool_choice must name a function: {'type': 'function', 'function': {'name': …}}.", "tool_choice"
        )
    return name


def form_grammar(wanted: ResponseFormat | None, param: str = "response_format") -> Grammar | None:
    """The grammar of an answer's form. Raises ApiError."""
    match wanted.type if wanted else "text":
        case "json_object":
            return Grammar("json_schema", json.dumps(ANYTHING))
        case "json_schema":
            given = (wanted and wanted.json_schema) or {}
            schema = given.get("schema", ANYTHING)
            if not isinstance(schema, dict):
                raise ApiError(f"{param}: json_schema.schema must be a JSON Schema.", param)
            return Grammar("json_schema", json.dumps(schema))
        case "regex" | "grammar" as kind:
            source = getattr(wanted, kind)
            if not source:
                raise ApiError(f"{param} of type {kind} needs {kind}.", param)
            return Grammar("regex" if kind == "regex" else "lark", source)
    return None


def _calls_grammar(tools: Sequence[FunctionFields], most: int) -> str:
    rules = [
        f"call{place}: {_quoted(OPENING + chr(10) + _head(tool))} args{place} {_quoted('}' + chr(10) + CLOSING)}\n"
        f"args{place}: {_json_rule(closed(tool.parameters or NOTHING))}"
        for place, tool in enumerate(tools)
    ]
    one = " | ".join(f"call{place}" for place in range(len(tools)))
    more = f' ("\\n" call){{0,{most - 1}}}' if most > 1 else ""
    return "\n".join([f"start: call{more}", f"call: {one}", *rules])


def _head(tool: FunctionFields) -> str:
    return f'{{"name": {json.dumps(tool.name)}, "arguments": '


def _json_rule(schema: dict[str, Any]) -> str:
    typed = schema if "type" in schema or not schema.get("properties") else {"type": "object", **schema}
    return "%json " + json.dumps({**typed, **WHITESPACE})


def closed(schema: Any) -> Any:
    """A schema whose objects have the named properties alone, unless it says otherwise.

    A function takes no other arguments, and a small model would make some up."""
    if not isinstance(schema, dict) or "allOf" in schema:
        return schema
    found = dict(schema)
    for key in ("properties", "$defs", "definitions"):
        if isinstance(found.get(key), dict):
            found[key] = {name: closed(one) for name, one in found[key].items()}
    for key in ("anyOf", "oneOf"):
        if isinstance(found.get(key), list):
            found[key] = [closed(one) for one in found[key]]
    if "items" in found:
        found["items"] = closed(found["items"])
    return {"additionalProperties": False, **found} if "properties" in found else found


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def called_text(name: str, arguments: str) -> str:
    """A call as a model writes it."""
    try:
        parsed = json.loads(arguments or "{}")
    except ValueError:
        parsed = arguments
    call = json.dumps({"name": name, "arguments": parsed}, ensure_ascii=False)
    return f"{OPENING}\n{call}\n{CLOSING}"


def result_text(content: str) -> str:
    """A call's result as a model reads it."""
    return f"<tool_response>\n{content}\n</tool_response>"
