"""Translation of a chat completion's messages into the engine's messages."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from itertools import count, groupby
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from app.api.errors import ApiError
from app.api.request_fields import Some, text_of
from app.api.services import ApiServices, ServedModel
from app.api.tool_syntax import CallSyntax, ToolTemplate
from app.api.tools import EXPLAINED_HERMES, called_text, result_text
from app.values.messages import Message, ToolCall

MOST_MESSAGES = 50_000
"""Largest number of messages in a request: even an empty message takes some tokens of the context."""


class CalledFunction(BaseModel):
    name: str
    arguments: str | dict[str, Any] | None = ""


class CalledTool(BaseModel):
    """A tool call that the assistant made. Some clients send no id."""

    id: str | None = None
    type: str | None = "function"
    function: CalledFunction


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Any = None
    tool_calls: Some[CalledTool] | None = None
    tool_call_id: str | None = None

    @property
    def calls(self) -> list[CalledTool]:
        """The tool calls of this message."""
        return self.tool_calls or []

    @property
    def is_about_tools(self) -> bool:
        """Whether this message makes a tool call, or gives the result of a call."""
        return bool(self.tool_calls) or self.role in ("tool", "function")


async def template_for(
    services: ApiServices, model: ServedModel, tools: Sequence[object] | None, messages: Sequence[ChatMessage]
) -> ToolTemplate:
    """Return how the model's chat template shows tools. The template is read only if the request is about tools."""
    is_needed = tools or any(message.is_about_tools for message in messages)
    return await services.tool_template(model) if is_needed else EXPLAINED_HERMES


def engine_messages(
    given: Sequence[ChatMessage], system: str = "", template: ToolTemplate = EXPLAINED_HERMES
) -> tuple[Message, ...]:
    """Make the engine's messages, with `system` added to the system prompt. Raises ApiError.

    A template that knows tools writes calls and results itself; for any other template they become texts."""
    texts = [text_of(message.content, f"messages[{place}].content") for place, message in enumerate(given)]
    found = _native(given, texts, template.syntax) if template.is_native else _as_texts(given, texts)
    if found[-1].role == "assistant" and not found[-1].content and not found[-1].calls:
        found.pop()  # an empty reply that could not be continued
    if not any(message.role != "system" for message in found):
        raise ApiError("messages: there is no message of a user to answer.", "messages")
    return _with_system(found, system)


def _native(given: Sequence[ChatMessage], texts: Sequence[str], syntax: CallSyntax) -> list[Message]:
    """Keep calls and results as they are. Results that name no call are assigned to the calls in order."""
    found, waiting, numbers = list[Message](), dict[str, list[ToolCall]](), count()
    for message, text in zip(given, texts, strict=True):
        match message.role:
            case "tool" | "function":
                found.append(_result(text, message.tool_call_id, waiting))
            case "assistant":
                calls = [_call(call, next(numbers), syntax) for call in message.calls]
                for call in calls:
                    waiting.setdefault(call.id, []).append(call)
                found += _said(text, calls, syntax)
            case role:
                found.append(Message("user" if role == "user" else "system", text))
    return _joined(found) if syntax.can_repeat else _answered(found)


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Join adjacent messages of the assistant, because the responses API sends each call as an item of its own."""
    found = list[Message]()
    for role, together in groupby(messages, lambda message: message.role):
        said = list(together)
        if role == "assistant" and len(said) > 1:
            text = "\n".join(message.content for message in said if message.content)
            said = [Message(role, text, tuple(call for message in said for call in message.calls))]
        found += said
    return found


def _call(call: CalledTool, number: int, syntax: CallSyntax) -> ToolCall:
    arguments = call.function.arguments
    written = arguments if isinstance(arguments, str) else _json(arguments)
    return ToolCall(short_id(call.id or str(number)), call.function.name, written or "{}", syntax.takes_text)


def _said(text: str, calls: Sequence[ToolCall], syntax: CallSyntax) -> list[Message]:
    """Return the assistant's text and calls as one message, or a message per call if the template takes only
    one."""
    if syntax.can_repeat or not calls:
        return [Message("assistant", text, tuple(calls))]
    return [Message("assistant", text if not place else "", (call,)) for place, call in enumerate(calls)]


def _result(text: str, call_id: str | None, waiting: dict[str, list[ToolCall]]) -> Message:
    """Return the result as a message, assigned to the call of this id, or else to the oldest waiting call.

    Removes that call from `waiting`."""
    wanted = short_id(call_id) if call_id else ""
    if not waiting:
        return Message("tool", text, call_id=wanted or short_id("0"))
    known = wanted if wanted in waiting else next(iter(waiting))
    found, *others = waiting.pop(known)
    if others:  # other calls of the same id
        waiting[known] = others
    return Message("tool", text, call_id=found.id, name=found.name)


def _answered(messages: Sequence[Message]) -> list[Message]:
    """Move each result to the place after its call, for templates that take one call at a time."""
    results = {message.call_id: message for message in messages if message.role == "tool"}
    found = list[Message]()
    for message in messages:
        if message.role != "tool":
            found.append(message)
            found += [results.pop(call.id) for call in message.calls if call.id in results]
        elif results.pop(message.call_id, None):
            found.append(message)
    return found


def short_id(call: str) -> str:
    """Hash an id to nine letters and digits, because Mistral's templates take no other ids."""
    return blake2b(call.encode(errors="replace"), digest_size=5).hexdigest()[:9]


def _as_texts(given: Sequence[ChatMessage], texts: Sequence[str]) -> list[Message]:
    """Write calls and results as texts in the Hermes form; a result becomes a message of the user.

    Adjacent calls become one message, and so do adjacent results, because the models were trained that way."""
    found = list[Message]()
    for role, together in groupby(zip(given, texts, strict=True), lambda pair: pair[0].role):
        if role in ("tool", "function"):
            found.append(Message("user", "\n".join(result_text(text) for _, text in together)))
        elif role == "assistant":
            said = ("\n".join([text] * bool(text) + [*map(_called, one.calls)]) for one, text in together)
            found.append(Message("assistant", "\n".join(said)))
        else:
            found += [Message("user" if role == "user" else "system", text) for _, text in together]
    return found


def _called(call: CalledTool) -> str:
    arguments = call.function.arguments
    return called_text(call.function.name, arguments if isinstance(arguments, str) else _json(arguments))


def _json(value: Any) -> str:
    return json.dumps(value or {}, ensure_ascii=False)


def _with_system(messages: list[Message], more: str) -> tuple[Message, ...]:
    """Join all system prompts, and `more`, into one at the beginning, because few templates take several."""
    texts = [message.content for message in messages if message.role == "system"]
    text = "\n\n".join(one for one in (*texts, more) if one)
    rest = [message for message in messages if message.role != "system"]
    return (Message("system", text), *rest) if text else tuple(rest)
