"""The format that a client requests for the answer, tools in a prompt, and the grammar of both."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.api.call_patterns import call_patterns
from app.api.errors import ApiError, validated_at
from app.api.reply_parsing import ReplyParser, TextParser, ToolCallParser
from app.values.chat_format import ANY, HERMES, KEY, UNKNOWN_FORMAT, CallFormat, ChatFormat
from app.values.dataclass_json import parse_json
from app.values.json_answers import for_grammar
from app.values.logits import Grammar, lark_text

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
OPTIONS = {"x-guidance": {"whitespace_pattern": "[ \\n]?", "coerce_one_of": True}}
NOTHING = {"type": "object", "properties": {}}
MOST_TOOLS = 1024
"""Eight times the number of tools that OpenAI's API takes."""
MOST_CALLS = 8
"""Maximum number of calls that a grammar allows in a reply."""


class ResponseFormat(BaseModel):
    """The format of the answer. The types `regex` and `grammar` (in Lark's syntax) are Foresight's own."""

    model_config = ConfigDict(extra="allow")

    type: Literal["text", "json_object", "json_schema", "regex", "grammar"] = "text"
    json_schema: dict[str, Any] | None = None
    flat_schema: Any = Field(None, alias="schema")
    """Other servers take the schema here."""
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


def json_rule(schema: Any) -> str:
    """Write a rule for JSON that matches a schema; a schema may also be true or false."""
    if not isinstance(schema, dict):
        return f"%json {json.dumps(schema)}"
    schema, _ = for_grammar(schema)
    typed = schema if "type" in schema or not schema.get("properties") else {"type": "object", **schema}
    return "%json " + json.dumps({**typed, **OPTIONS})


class FunctionFields(BaseModel):
    """A function that the client can call."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @field_validator("parameters")
    @classmethod
    def _of_an_object(cls, given: dict[str, Any] | None) -> dict[str, Any] | None:
        if given and given.get("type", "object") != "object":
            raise ValueError(f'must be a JSON Schema of type "object", not {given["type"]!r}')
        return given


class ToolFields(BaseModel):
    type: Literal["function"] = "function"
    function: FunctionFields


def flat_tools(given: Sequence[Any] | None, kinds: Sequence[str | None], parameters: str) -> list[ToolFields]:
    """Read tools whose fields are not in a field `function`; `parameters` is the name of their schema.

    Raises ApiError for tools of other kinds, which only OpenAI's or Anthropic's servers have."""
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


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools that a reply may use. If some are `forced`, the reply must call one of them."""

    offered: tuple[FunctionFields, ...] = ()
    forced: tuple[FunctionFields, ...] = ()
    most_calls: int = 1
    form: Grammar | None = field(default=None)
    chat_format: ChatFormat = UNKNOWN_FORMAT

    @property
    def calls(self) -> CallFormat:
        return calls_of(self.chat_format)

    def parser(self) -> ReplyParser:
        """Make a parser that finds the thought, and calls of these tools, in the reply."""
        schemas = {one.name: one.parameters for one in self.offered}
        return ReplyParser(ToolCallParser(self.calls, schemas) if self.offered else TextParser())

    @property
    def prompt(self) -> str:
        """The part of the system prompt that explains the tools; "" without tools, or if the template does it."""
        if not self.offered or self.calls.shows_tools:
            return ""
        return EXPLAINED.format(tools="\n".join(json.dumps(one, ensure_ascii=False) for one in self._shown))

    @property
    def native(self) -> str:
        """The tools as JSON for a template that writes them, else ""."""
        is_told = self.offered and self.calls.shows_tools
        return json.dumps(self._shown, ensure_ascii=False) if is_told else ""

    @property
    def control(self) -> tuple[str, ...]:
        """The texts whose control tokens must be kept in the reply's text."""
        return (*self.calls.texts, *call_patterns(self.calls).openings) if self.offered else ()

    @property
    def not_enforced(self) -> list[str]:
        """The keywords of JSON Schema that the grammar's schemas have and that it does not enforce."""
        schemas = [one.parameters for one in self.forced]
        if not self.forced and self.form and self.form.kind == "json_schema":
            schemas = [parse_json(self.form.source)]
        return sorted({word for schema in schemas for word in for_grammar(schema)[1]})

    @property
    def _shown(self) -> list[dict[str, Any]]:
        """The tools as chat templates expect them."""
        shown = [one.model_dump(exclude_none=True, exclude={"strict"}) for one in self.offered]
        return [
            {"type": "function", "function": {"description": "", "parameters": NOTHING, **one}}
            for one in shown
        ]

    @property
    def grammar(self) -> Grammar | None:
        """The grammar of the answer: forced calls, or the answer's format; calls may replace an answer in JSON."""
        most = self.most_calls if self.forced else MOST_CALLS
        most = most if self.calls.can_repeat else 1
        if self.forced:
            return Grammar("lark", calls_grammar(self.forced, most, self.calls))
        if self.form is None or self.form.kind != "json_schema" or not self.offered:
            return self.form
        calls = calls_grammar(self.offered, most, self.calls).replace("start:", "calls:", 1)
        rule = json_rule(parse_json(self.form.source))
        return Grammar("lark", f"start: (form | calls)\nform: {rule}\n{calls}")


def calls_of(chat_format: ChatFormat) -> CallFormat:
    """Return the format in which a model writes calls; HERMES if its template shows no tools."""
    calls = chat_format.reply.calls
    return calls if calls.kind and calls.shows_tools else HERMES


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
            raise ApiError("tool_choice requires a call, and there are no tools.", "tool_choice")
    raise ApiError("tool_choice must be none, auto, required, or name a function.", "tool_choice")


def _among(offered: Sequence[FunctionFields], names: Iterable[str]) -> tuple[FunctionFields, ...]:
    """Return the tools of these names. Raises ApiError if a name is none of the tools."""
    wanted = set(names)
    if unknown := wanted - {one.name for one in offered}:
        raise ApiError(f"tool_choice names {min(unknown)!r}, which is none of the tools.", "tool_choice")
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


def calls_grammar(tools: Sequence[FunctionFields], most: int, form: CallFormat = HERMES) -> str:
    """Write a grammar, in Lark's syntax, of up to `most` calls of these tools."""
    rules = list[str]()
    for place, tool in enumerate(tools):
        heading = lark_text(f"{form.before_name}{json.dumps(tool.name)[1:-1]}{form.after_name}")
        rules.append(f"call{place}: {heading} args{place} {lark_text(form.after_arguments)}".rstrip())
        rules.append(_arguments_rule(place, tool.parameters or NOTHING, form))
    one = " | ".join(f"call{place}" for place in range(len(tools)))
    more = f"({lark_text(form.between)} call){{0,{most - 1}}}" if most > 1 else ""
    start = " ".join(part for part in (lark_text(form.begin), "call", more, lark_text(form.end)) if part)
    return "\n".join([f"start: {start}", f"call: {one}", *rules])


def _arguments_rule(place: int, schema: dict[str, Any], form: CallFormat) -> str:
    """Write the rule of a call's arguments: a JSON object, or in "tags" and "pairs" a rule for each argument."""
    if form.kind not in ("tags", "pairs"):
        return f"args{place}: {json_rule(schema)}"
    properties = schema.get("properties", {})
    required = [name for name in properties if name in schema.get("required", ())]
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    rules, parts = list[str](), list[str]()
    for number, name in enumerate([*required, *(one for one in properties if one not in required)]):
        one, rule = properties[name], f"args{place}x{number}"
        head = lark_text(f"{form.before_key}{name}{form.after_key}".replace(ANY, "true"))
        typed = {**shared, **one} if isinstance(one, dict) else one
        rules.append(f"{rule}: {head} {rule}value")
        rules.append(_value_rule(f"{rule}value", typed, form, name))
        before = lark_text(form.after_value) + " " if form.kind == "pairs" and number else ""
        parts.append(f"{before}{rule}" if name in required else f"({before}{rule})?")
    return "\n".join([f"args{place}: {' '.join(parts) or _quoted('')}", *rules])


def _value_rule(name: str, schema: Any, form: CallFormat, key: str) -> str:
    """Write the rule of an argument's value, with what ends it.

    A string is written as it is; in "pairs" with a quote of one character it is JSON, like all other values."""
    is_pair, quote = form.kind == "pairs", form.quote
    after = quote if is_pair else form.after_value.replace(KEY, key)
    ending = lark_text(after)
    if not isinstance(schema, dict) or schema.get("type") != "string" or (is_pair and len(quote) == 1):
        return f"{name}: {json_rule(schema)} {'' if is_pair else ending}".rstrip()
    begin = f"{lark_text(quote)} " if is_pair else ""
    if known := [schema["const"]] if "const" in schema else schema.get("enum"):
        return f"{name}: {begin}({' | '.join(_quoted(str(one)) for one in known)}) {ending}"
    length = f"{schema.get('minLength', 0)},{schema.get('maxLength', '')}"
    if begin:
        return f"{name}: {begin}{name}text\n{name}text[suffix={_quoted(after)}]: /(.|\\n){{{length}}}/"
    return f"{name}[suffix={_quoted(after)}]: /(.|\\n){{{length}}}/"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
