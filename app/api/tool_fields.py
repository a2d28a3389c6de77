"""The fields of a request for its answer's format and its tools."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.errors import ApiError, validated_at
from app.conversation.tool_use import MOST_CALLS, FunctionFields, ToolUse
from app.values.chat_format import UNKNOWN_FORMAT, ChatFormat
from app.values.logits import Grammar

ANYTHING = {"type": "object"}
MOST_TOOLS = 1024
"""Maximum number of tools in a request, eight times OpenAI's."""


class ResponseFormat(BaseModel):
    """The format of the answer. The types `regex` and `grammar` (in Lark's syntax) are Foresight's own."""

    model_config = ConfigDict(extra="allow")

    type: Literal["text", "json_object", "json_schema", "regex", "grammar"] = "text"
    json_schema: dict[str, Any] | None = None
    flat_schema: Any = Field(None, alias="schema")
    """The field in which other servers expect the schema."""
    regex: str | None = None
    grammar: str | None = None


def form_grammar(wanted: ResponseFormat | None, param: str = "response_format") -> Grammar | None:
    """Return the grammar of an answer's format; None for free text. Raises ApiError."""
    match wanted.type if wanted else "text":
        case "json_object" | "json_schema" as kind:
            default = ANYTHING if kind == "json_object" else None
            places = ((wanted.json_schema or {}).get("schema"), wanted.flat_schema, default) if wanted else ()
            schema = next((one for one in places if one is not None), None)
            if not isinstance(schema, dict):
                raise ApiError(f"{param} needs a JSON Schema as json_schema.schema.", param)
            return Grammar("json_schema", json.dumps(schema))
        case "regex" | "grammar" as kind:
            source = getattr(wanted, kind)
            if not source:
                raise ApiError(f"{param} of type {kind} needs {kind}.", param)
            return Grammar("regex" if kind == "regex" else "lark", source)
    return None


class ToolFields(BaseModel):
    type: Literal["function"] = "function"
    function: FunctionFields


def flat_tools(given: Sequence[Any] | None, kinds: Sequence[str | None], parameters: str) -> list[ToolFields]:
    """Read tools whose name and schema are not nested in `function`; `parameters` names the field of the schema.

    Raises ApiError for invalid tools and for other kinds, which only OpenAI's or Anthropic's servers have."""
    found = list[ToolFields]()
    for place, tool in enumerate(given or ()):
        param = f"tools[{place}]"
        if tool.get("type") not in kinds:
            raise ApiError(
                f"{param}: Foresight calls only functions, not {tool.get('type')!r}.", f"{param}.type"
            )
        with validated_at(param):
            function = FunctionFields.model_validate({**tool, "parameters": tool.get(parameters)})
        found.append(ToolFields(function=function))
    return found


def tool_use(
    tools: Sequence[FunctionFields],
    choice: Any,
    is_parallel: bool | None,
    form: Grammar | None,
    chat_format: ChatFormat = UNKNOWN_FORMAT,
) -> ToolUse:
    """Apply the request's tool_choice to its tools. Raises ApiError."""
    offered = tuple(tools)
    use = ToolUse(form=form, chat_format=chat_format)
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        given = choice.get("allowed_tools", choice)
        allowed = given.get("tools") if isinstance(given, dict) else None
        if not isinstance(allowed, list):
            raise ApiError("tool_choice of the type allowed_tools needs a list of tools.", "tool_choice")
        offered, choice = _among(offered, map(_named, allowed)), given.get("mode", "auto")
    if isinstance(choice, dict):
        return replace(use, offered=offered, forced=_among(offered, [_named(choice)]))
    match choice:
        case "none":
            return use
        case None | "auto":
            return replace(use, offered=offered)
        case "required" | "any" if offered:
            return replace(use, offered=offered, forced=offered, most_calls=MOST_CALLS if is_parallel else 1)
        case "required" | "any":
            raise ApiError("tool_choice requires a call, but the request has no tools.", "tool_choice")
    raise ApiError("tool_choice must be none, auto, required, or name a function.", "tool_choice")


def _among(offered: Sequence[FunctionFields], names: Iterable[str]) -> tuple[FunctionFields, ...]:
    """Return the tools of these names. Raises ApiError for a name that no tool has."""
    wanted = set(names)
    if unknown := wanted - {one.name for one in offered}:
        raise ApiError(f"tool_choice names {min(unknown)!r}, which is not one of the tools.", "tool_choice")
    return tuple(one for one in offered if one.name in wanted)


def _named(choice: Any) -> str:
    if not isinstance(choice, dict):
        choice = {}
    function = choice.get("function", choice)
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise ApiError(
            "tool_choice must name a function: {'type': 'function', 'function': {'name': …}}.", "tool_choice"
        )
    return name
