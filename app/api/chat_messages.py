"""Translates a chat completion's messages into the engine's messages."""

import json
from collections.abc import Sequence
from itertools import count
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator

from app.api.errors import ApiError
from app.api.request_fields import Some, text_of
from app.conversation.tool_use import as_the_template_takes, calls_of, short_id
from app.values.chat_format import CLOSING, OPENING, UNKNOWN_FORMAT, CallFormat, ChatFormat
from app.values.messages import Message, ToolCall

MOST_MESSAGES = 50_000
"""Maximum number of messages in a request."""


Arguments = Annotated[
    str,
    BeforeValidator(
        lambda given: (
            given if given and isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
        ),
        json_schema_input_type=str | dict[str, Any] | None,
    ),
]
"""A call's arguments as JSON text. An object, which some clients send, is converted to JSON text."""


class CalledFunction(BaseModel):
    name: str
    arguments: Arguments = "{}"


class CalledTool(BaseModel):
    """A tool call that the assistant made. Some clients send no id."""

    id: str | None = None
    type: str | None = "function"
    function: CalledFunction


class ChatMessage(BaseModel):
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
    def is_about_tools(self) -> bool:
        """Whether this message makes a tool call, or gives the result of a call."""
        return bool(self.tool_calls) or self.role in ("tool", "function")


def engine_messages(
    given: Sequence[ChatMessage], system: str = "", chat_format: ChatFormat = UNKNOWN_FORMAT
) -> tuple[Message, ...]:
    """Make the engine's messages, with `system` added to the system prompt. Raises ApiError.

    A template that knows tools writes calls and results itself; for other templates they become text."""
    form = calls_of(chat_format)
    found = _messages(given, form)
    found = as_the_template_takes(found, form)
    if found[-1].role == "assistant" and not found[-1].calls:
        begun = _begun(found.pop(), bool(chat_format.reply.thought_opening))
        found += [begun] if begun.content else []  # an empty reply could not be continued
    if not any(message.role != "system" or message.content for message in found):
        raise ApiError("messages: there is no text to answer.", "messages")
    # All system prompts are joined at the beginning, because few templates take several.
    texts = [*(message.content for message in found if message.role == "system"), system]
    rest = tuple(message for message in found if message.role != "system")
    text = "\n\n".join(filter(None, texts))
    return (Message("system", text), *rest) if text else rest


def _begun(message: Message, thinks: bool) -> Message:
    """Return a reply that is to be continued, with its thought in its text.

    The thought before an answer is left out if the template has no thoughts."""
    if not message.thought or (message.content and not thinks):
        return Message("assistant", message.content)
    answer = f"\n{CLOSING}\n\n{message.content}" if message.content else ""
    return Message("assistant", f"{OPENING}\n{message.thought}{answer}")


def _messages(given: Sequence[ChatMessage], form: CallFormat) -> list[Message]:
    """Translate each message. A result that names no known call belongs to the oldest call without a result.

    Raises ApiError for content that is not text."""
    found, waiting, numbers = list[Message](), dict[str, list[ToolCall]](), count()
    for place, message in enumerate(given):
        text = text_of(message.content, f"messages[{place}].content")
        match message.role:
            case "tool" | "function":
                found.append(_result(text, message.tool_call_id, waiting))
            case "assistant":
                calls = tuple(
                    ToolCall(
                        short_id(call.id or str(next(numbers))),
                        call.function.name,
                        call.function.arguments,
                        form.takes_text,
                    )
                    for call in message.tool_calls or ()
                )
                for call in calls:
                    waiting.setdefault(call.id, []).append(call)
                found.append(Message("assistant", text, calls, thought=message.thought))
            case role:
                found.append(Message("user" if role == "user" else "system", text))
    return found


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
