"""The messages of a chat completion as the engine reads them."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from app.api.errors import ApiError
from app.api.sampling_fields import text_of
from app.api.tools import called_text, result_text
from app.messages import Message, Role


class CalledFunction(BaseModel):
    """A call's name and arguments."""

    name: str
    arguments: str | dict[str, Any] | None = ""


class CalledTool(BaseModel):
    """A call that the assistant made. Some clients send no id."""

    id: str | None = None
    type: str | None = "function"
    function: CalledFunction


class ChatMessage(BaseModel):
    """One message."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Any = None
    tool_calls: list[CalledTool] | None = None


def engine_messages(given: Sequence[ChatMessage], system: str = "") -> tuple[Message, ...]:
    """The messages. `system` is added to the system prompt; results of tools become the user's. Raises ApiError."""
    found = list[Message]()
    for place, message in enumerate(given):
        text = text_of(message.content, f"messages[{place}].content")
        if message.role in ("tool", "function"):
            _add(
                found,
                "user",
                result_text(text),
                is_more=bool(place) and given[place - 1].role == message.role,
            )
        elif message.role == "assistant":
            calls = [_called(call) for call in message.tool_calls or ()]
            _add(
                found,
                "assistant",
                "\n".join([text] * bool(text) + calls),
                is_more=_ends_with_assistant(found),
            )
        else:
            found.append(Message("user" if message.role == "user" else "system", text))
    if found[-1].role == "assistant" and not found[-1].content:
        found.pop()  # nothing to go on from
    if not any(message.role != "system" for message in found):
        raise ApiError("messages: there is no message of a user to answer.", "messages")
    return _with_system(found, system)


def _called(call: CalledTool) -> str:
    arguments = call.function.arguments
    return called_text(call.function.name, arguments if isinstance(arguments, str) else _json(arguments))


def _json(value: Any) -> str:
    return json.dumps(value or {}, ensure_ascii=False)


def _add(found: list[Message], role: Role, text: str, is_more: bool) -> None:
    """Calls behind one another are one message, and so are results, as the models were trained."""
    if is_more:
        found[-1] = Message(role, f"{found[-1].content}\n{text}")
    else:
        found.append(Message(role, text))


def _ends_with_assistant(found: Sequence[Message]) -> bool:
    return bool(found) and found[-1].role == "assistant"


def _with_system(messages: list[Message], more: str) -> tuple[Message, ...]:
    """All system prompts as one at the beginning: few templates take others."""
    texts = [message.content for message in messages if message.role == "system"]
    text = "\n\n".join(one for one in (*texts, more) if one)
    rest = [message for message in messages if message.role != "system"]
    return (Message("system", text), *rest) if text else tuple(rest)
