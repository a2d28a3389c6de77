"""Describes tools and their calls for a model: in the prompt, in earlier messages, and in a reply's grammar."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import groupby
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.conversation.call_grammar import NOTHING, calls_grammar, json_rule, not_enforced
from app.conversation.reply_parsing import ReplyParser, TextParser, ToolCallParser
from app.conversation.thought_parsing import split_thought
from app.conversation.tool_call_patterns import call_patterns
from app.values.chat_format import HERMES, UNKNOWN_FORMAT, CallFormat, ChatFormat
from app.values.dataclass_json import json_text, parse_json
from app.values.json_answers import for_grammar
from app.values.logits import Grammar
from app.values.messages import Message, ToolCall
from app.values.tools import Tool, rounds_of

EXPLAINED = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

{how}"""
HOW_IN_HERMES = """For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""
HOW = "To call a function, write its name and its arguments in exactly this format:\n"
EXAMPLE = "function_name", '{"argument_name": "value"}'
NOT_MADE = "The call was not made."
MOST_CALLS = 8
"""Maximum number of calls that a grammar allows in one reply."""


class FunctionFields(BaseModel):
    """A function that the model may call, with the fields that OpenAI's API defines."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @field_validator("parameters", mode="before")
    @classmethod
    def _of_an_object(cls, given: Any) -> Any:
        if not given:
            return None  # PHP writes an empty object as []
        if not is_of_object(given):
            raise ValueError('must be a JSON Schema of type "object", with properties by name')
        return {**given, "properties": given["properties"] or {}} if "properties" in given else given


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools that a reply may use. If some are `forced`, the reply must call at least one of them, and at most
    `most_calls` times. `form` is the grammar of an answer without calls."""

    offered: tuple[FunctionFields, ...] = ()
    forced: tuple[FunctionFields, ...] = ()
    most_calls: int = 1
    form: Grammar | None = field(default=None)
    chat_format: ChatFormat = UNKNOWN_FORMAT

    @property
    def calls(self) -> CallFormat:
        return calls_of(self.chat_format)

    def parser(self, begun: str = "") -> ReplyParser:
        """Make a parser that finds the thought, and calls of these tools, in what follows the `begun` reply."""
        schemas = {one.name: one.parameters for one in self.offered}
        return ReplyParser(ToolCallParser(self.calls, schemas) if self.offered else TextParser(), begun)

    @property
    def prompt(self) -> str:
        """The part of the system prompt that explains the tools; "" if none are offered or the template does so."""
        if not self.offered or self.calls.shows_tools:
            return ""
        how = HOW_IN_HERMES if self.calls == HERMES else HOW + self.calls.written([EXAMPLE])
        return EXPLAINED.format(tools="\n".join(map(json_text, self._shown)), how=how)

    @property
    def native(self) -> str:
        """The tools as JSON for a template that writes them, else ""."""
        return json_text(self._shown) if self.offered and self.calls.shows_tools else ""

    @property
    def control(self) -> tuple[str, ...]:
        """The texts whose control tokens must be kept in the reply's text."""
        return (*self.calls.texts, *call_patterns(self.calls).openings) if self.offered else ()

    @property
    def not_enforced(self) -> list[str]:
        """The keywords of JSON Schema in this reply's schemas that its grammar does not enforce."""
        found = [not_enforced(schema, self.calls) for schema in _schemas(self.forced).values()]
        if not self.forced and self.form and self.form.kind == "json_schema":
            found = [set(for_grammar(parse_json(self.form.source))[1])]
        return sorted(set().union(*found))

    @property
    def _shown(self) -> list[dict[str, Any]]:
        shown = [one.model_dump(exclude_none=True, exclude={"strict"}) for one in self.offered]
        # templates write the keys in this order, in which models have learned them
        missing: dict[str, Any] = {"name": "", "description": "", "parameters": NOTHING}
        return [{"type": "function", "function": missing | one} for one in shown]

    @property
    def grammar(self) -> Grammar | None:
        """The grammar of the reply: forced calls, or else the answer's `form`. If the form is a JSON Schema, the
        reply may have calls of the offered tools instead."""
        most = self.most_calls if self.forced else MOST_CALLS
        most = most if self.calls.can_repeat else 1
        if self.forced:
            return Grammar("lark", calls_grammar(_schemas(self.forced), most, self.calls))
        if self.form is None or self.form.kind != "json_schema" or not self.offered:
            return self.form
        calls = calls_grammar(_schemas(self.offered), most, self.calls).replace("start:", "calls:", 1)
        rule = json_rule(parse_json(self.form.source))
        return Grammar("lark", f"start: (form | calls)\nform: {rule}\n{calls}")


NO_TOOLS = ToolUse()


def _schemas(tools: Iterable[FunctionFields]) -> dict[str, dict[str, Any]]:
    return {one.name: one.parameters or NOTHING for one in tools}


def calls_of(chat_format: ChatFormat) -> CallFormat:
    """Return the format in which a model writes calls; HERMES if its template shows no calls."""
    calls = chat_format.reply.calls
    return calls if calls.kind else HERMES


def function_of(name: str, tool: Tool) -> FunctionFields:
    """Return a tool under the name by which the model calls it. A schema that is not an object's is left out."""
    schema = parse_json(tool.schema)
    parameters = schema if is_of_object(schema) else None
    return FunctionFields(name=name, description=tool.description, parameters=parameters)


def is_of_object(schema: Any) -> bool:
    """Return whether this is the JSON Schema of an object, whose `properties` map names to schemas."""
    return (
        isinstance(schema, dict)
        and schema.get("type", "object") == "object"
        and isinstance(schema.get("properties") or {}, dict)
        and isinstance(schema.get("required") or [], list)
    )


def with_rounds(messages: Sequence[Message], form: CallFormat) -> tuple[Message, ...]:
    """Return a chat's messages, in which each reply that called tools is split into its rounds and results."""
    if not any(message.called for message in messages):
        return tuple(messages)
    found = [part for message in messages for part in _rounds(message, form)]
    return tuple(as_the_template_takes(found, form))


def _rounds(message: Message, form: CallFormat) -> Iterable[Message]:
    if not message.called:
        yield message
        return
    for each in rounds_of(message.content, message.called):
        if not each.calls:  # the text after the last result, which may be continued
            yield from [Message("assistant", each.text)] if each.text else []
            continue
        split = split_thought(each.text)
        ids = [short_id(call.id) for call in each.calls]
        calls = (
            ToolCall(id, call.name, call.arguments, form.takes_text)
            for id, call in zip(ids, each.calls, strict=True)
        )
        yield Message("assistant", split.answer.strip(), tuple(calls), thought=split.thought)
        for id, call in zip(ids, each.calls, strict=True):
            yield Message("tool", call.result or NOT_MADE, call_id=id, name=call.name)


def as_the_template_takes(messages: Sequence[Message], form: CallFormat) -> list[Message]:
    """Return messages with calls and results as this format's template takes them.

    A template that shows calls writes them and their results itself; for any other template they become texts."""
    if form == HERMES:
        # Adjacent calls become one text, and so do adjacent results, because the models were trained that way.
        texts = _joined(map(_as_text, messages), ("assistant", "tool"))
        return [replace(one, role="user") if one.role == "tool" else one for one in texts]
    if form.can_repeat:
        # The responses API sends each call as an item of its own.
        return _joined(messages, ("assistant",))
    return _one_call_each(messages)


def _joined(messages: Iterable[Message], roles: Container[str]) -> list[Message]:
    """Join adjacent messages of the same role, for each of these roles."""
    found = list[Message]()
    for role, together in groupby(messages, lambda message: message.role):
        group = list(together)
        if role in roles and len(group) > 1:
            text = "\n".join(message.content for message in group if message.content)
            thought = "\n".join(message.thought for message in group if message.thought)
            group = [Message(role, text, tuple(call for one in group for call in one.calls), thought=thought)]
        found += group
    return found


def _as_text(message: Message) -> Message:
    """Write a message's calls, or a tool's result, as text in the Hermes format."""
    if message.role == "tool":
        return Message("tool", f"<tool_response>\n{message.content}\n</tool_response>")
    calls = HERMES.written((call.name, call.arguments) for call in message.calls)
    return replace(message, content="\n".join(filter(None, (message.content, calls))), calls=())


def _one_call_each(messages: Sequence[Message]) -> list[Message]:
    """Make a message of each call, with its result after it, for templates that take one call at a time."""
    results = {message.call_id: message for message in messages if message.role == "tool"}
    found = list[Message]()
    for message in messages:
        if message.role == "tool":
            found += [message] if results.pop(message.call_id, None) else []
            continue
        found.append(replace(message, calls=message.calls[:1]))
        for number, call in enumerate(message.calls):
            found += [Message("assistant", "", (call,))] if number else []
            found += [results.pop(call.id)] if call.id in results else []
    return found


def short_id(call: str) -> str:
    """Hash an id to nine letters and digits, because Mistral's templates take no other ids."""
    return blake2b(call.encode(errors="replace"), digest_size=5).hexdigest()[:9]
