"""Translation of a chat completion's messages into the engine's messages."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from itertools import count, groupby
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from app.api.errors import ApiError
from app.api.request_fields import Some, text_of
from app.api.tool_use import calls_of, result_text
from app.values.chat_format import HERMES, UNKNOWN_FORMAT, CallFormat, ChatFormat
from app.values.markers import CLOSING, OPENING
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
    reasoning_content: str | None = None
    reasoning: str | None = None

    @property
    def thought(self) -> str:
        """The thought before the assistant's answer, which clients send under one of two names."""
        return self.reasoning_content or self.reasoning or ""

    @property
    def calls(self) -> list[CalledTool]:
        """The tool calls of this message."""
        return self.tool_calls or []

    @property
    def is_about_tools(self) -> bool:
        """Whether this message makes a tool call, or gives the result of a call."""
        return bool(self.tool_calls) or self.role in ("tool", "function")


def engine_messages(
    given: Sequence[ChatMessage], system: str = "", chat_format: ChatFormat = UNKNOWN_FORMAT
) -> tuple[Message, ...]:
    """Make the engine's messages, with `system` added to the system prompt. Raises ApiError.

    A template that knows tools writes calls and results itself; for any other template they become texts."""
    texts = [text_of(message.content, f"messages[{place}].content") for place, message in enumerate(given)]
    calls = calls_of(chat_format)
    found = _native(given, texts, calls) if calls.shows_tools else _as_texts(given, texts)
    if found[-1].role == "assistant" and not found[-1].calls:
        begun = _begun(found.pop())
        found += [begun] if begun.content else []  # an empty reply could not be continued
    if not any(message.role != "system" or message.content for message in found):
        raise ApiError("messages: there is no text to answer.", "messages")
    return _with_system(found, system)


def _begun(message: Message) -> Message:
    """Return a reply that is to be continued, with its thought in its text."""
    if not message.thought:
        return message
    answer = f"\n{CLOSING}\n\n{message.content}" if message.content else ""
    return Message("assistant", f"{OPENING}\n{message.thought}{answer}")


def _native(given: Sequence[ChatMessage], texts: Sequence[str], form: CallFormat) -> list[Message]:
    """Keep calls and results as they are. Results that name no call are assigned to the calls in order."""
    found, waiting, numbers = list[Message](), dict[str, list[ToolCall]](), count()
    for message, text in zip(given, texts, strict=True):
        match message.role:
            case "tool" | "function":
                found.append(_result(text, message.tool_call_id, waiting))
            case "assistant":
                calls = [
                    ToolCall(short_id(call.id or str(next(numbers))), *_called(call), form.takes_text)
                    for call in message.calls
                ]
                for call in calls:
                    waiting.setdefault(call.id, []).append(call)
                found += _answers(text, calls, form, message.thought)
            case role:
                found.append(Message("user" if role == "user" else "system", text))
    return _joined(found) if form.can_repeat else _answered(found)


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Join adjacent messages of the assistant, because the responses API sends each call as an item of its own."""
    found = list[Message]()
    for role, together in groupby(messages, lambda message: message.role):
        said = list(together)
        if role == "assistant" and len(said) > 1:
            text = "\n".join(message.content for message in said if message.content)
            thought = "\n".join(message.thought for message in said if message.thought)
            calls = tuple(call for message in said for call in message.calls)
            said = [Message(role, text, calls, thought=thought)]
        found += said
    return found


def _answers(text: str, calls: Sequence[ToolCall], form: CallFormat, thought: str) -> list[Message]:
    """Return the assistant's text and calls as one message, or one per call if the template needs that."""
    if form.can_repeat or not calls:
        return [Message("assistant", text, tuple(calls), thought=thought)]
    first, *others = calls
    return [
        Message("assistant", text, (first,), thought=thought),
        *(Message("assistant", "", (call,)) for call in others),
    ]


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
    """Write calls and results as texts in the Hermes format; a result becomes a message of the user.

    Adjacent calls become one message, and so do adjacent results, because the models were trained that way."""
    found = list[Message]()
    for role, together in groupby(zip(given, texts, strict=True), lambda pair: pair[0].role):
        if role in ("tool", "function"):
            found.append(Message("user", "\n".join(result_text(text) for _, text in together)))
        elif role == "assistant":
            pairs = list(together)
            said = [part for one, text in pairs for part in (text, HERMES.written(map(_called, one.calls)))]
            thought = "\n".join(one.thought for one, _ in pairs if one.thought)
            found.append(Message("assistant", "\n".join(filter(None, said)), thought=thought))
        else:
            found += [Message("user" if role == "user" else "system", text) for _, text in together]
    return found


def _called(call: CalledTool) -> tuple[str, str]:
    """Return a call's name and its arguments as JSON."""
    arguments = call.function.arguments
    return call.function.name, (arguments if isinstance(arguments, str) else _json(arguments)) or "{}"


def _json(value: Any) -> str:
    return json.dumps(value or {}, ensure_ascii=False)


def _with_system(messages: list[Message], more: str) -> tuple[Message, ...]:
    """Join all system prompts, and `more`, into one at the beginning, because few templates take several."""
    texts = [message.content for message in messages if message.role == "system"]
    text = "\n\n".join(one for one in (*texts, more) if one)
    rest = [message for message in messages if message.role != "system"]
    return (Message("system", text), *rest) if text else tuple(rest)
