"""The messages of a chat completion as the engine reads them."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from itertools import count
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from app.api.errors import ApiError
from app.api.sampling_fields import text_of
from app.api.services import ApiServices, ServedModel
from app.api.tool_syntax import CallSyntax, ToolTemplate
from app.api.tools import EXPLAINED_HERMES, called_text, result_text
from app.messages import Message, Role, ToolCall


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
    tool_call_id: str | None = None

    @property
    def calls(self) -> list[CalledTool]:
        """Those that it makes."""
        return self.tool_calls or []

    @property
    def is_about_tools(self) -> bool:
        """Whether it makes a call, or answers one."""
        return bool(self.tool_calls) or self.role in ("tool", "function")


async def template_for(
    services: ApiServices, model: ServedModel, tools: Sequence[object] | None, messages: Sequence[ChatMessage]
) -> ToolTemplate:
    """How the model is told of tools. Its chat template is read only where a request is about tools."""
    is_needed = tools or any(message.is_about_tools for message in messages)
    return await services.tool_template(model) if is_needed else EXPLAINED_HERMES


def engine_messages(
    given: Sequence[ChatMessage], system: str = "", template: ToolTemplate = EXPLAINED_HERMES
) -> tuple[Message, ...]:
    """The messages; `system` is added to the system prompt. Calls and results are the template's to write.

    Where it writes none they become texts. Raises ApiError."""
    texts = [text_of(message.content, f"messages[{place}].content") for place, message in enumerate(given)]
    make = _native if template.is_native else _as_texts
    found = make(given, texts, template.syntax)
    if found[-1].role == "assistant" and not found[-1].content and not found[-1].calls:
        found.pop()  # nothing to go on from
    if not any(message.role != "system" for message in found):
        raise ApiError("messages: there is no message of a user to answer.", "messages")
    return _with_system(found, system)


def _native(given: Sequence[ChatMessage], texts: Sequence[str], syntax: CallSyntax) -> list[Message]:
    """Calls and results as such. One that names no call answers the calls in their order."""
    found, waiting, numbers = list[Message](), list[ToolCall](), count()
    for message, text in zip(given, texts, strict=True):
        match message.role:
            case "tool" | "function":
                found.append(_result(text, message.tool_call_id, waiting))
            case "assistant":
                calls = [_call(call, next(numbers), syntax) for call in message.calls]
                waiting += calls
                found += _said(text, calls, syntax)
                if syntax.can_repeat and len(found) > 1 and found[-2].role == "assistant":
                    found[-2:] = [_joined(*found[-2:])]
            case role:
                found.append(Message("user" if role == "user" else "system", text))
    return _answered(found, syntax)


def _joined(one: Message, other: Message) -> Message:
    """Two messages of the assistant as one: the responses API has an item for each call."""
    text = "\n".join(filter(None, (one.content, other.content)))
    return Message("assistant", text, (*one.calls, *other.calls))


def _call(call: CalledTool, number: int, syntax: CallSyntax) -> ToolCall:
    arguments = call.function.arguments
    written = arguments if isinstance(arguments, str) else _json(arguments)
    return ToolCall(short_id(call.id or str(number)), call.function.name, written or "{}", syntax.takes_text)


def _said(text: str, calls: Sequence[ToolCall], syntax: CallSyntax) -> list[Message]:
    """What the assistant said, and its calls; each by itself where the template takes one."""
    if syntax.can_repeat or not calls:
        return [Message("assistant", text, tuple(calls))]
    return [Message("assistant", text if not place else "", (call,)) for place, call in enumerate(calls)]


def _result(text: str, call_id: str | None, waiting: list[ToolCall]) -> Message:
    wanted = short_id(call_id) if call_id else ""
    found = next((call for call in waiting if call.id == wanted), waiting[0] if waiting else None)
    if found is None:
        return Message("tool", text, call_id=wanted or short_id("0"))
    waiting.remove(found)
    return Message("tool", text, call_id=found.id, name=found.name)


def _answered(messages: list[Message], syntax: CallSyntax) -> list[Message]:
    """Each result behind its own call, where calls are written one by one."""
    if syntax.can_repeat:
        return messages
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
    """Nine letters and digits: Mistral's templates take nothing else."""
    return blake2b(call.encode(errors="replace"), digest_size=5).hexdigest()[:9]


def _as_texts(given: Sequence[ChatMessage], texts: Sequence[str], _syntax: CallSyntax) -> list[Message]:
    """Calls and results in the Hermes form; results are the user's."""
    found = list[Message]()
    for place, (message, text) in enumerate(zip(given, texts, strict=True)):
        if message.role in ("tool", "function"):
            is_more = bool(place) and given[place - 1].role == message.role
            _add(found, "user", result_text(text), is_more)
        elif message.role == "assistant":
            calls = [_called(call) for call in message.calls]
            _add(found, "assistant", "\n".join([text] * bool(text) + calls), _ends_with_assistant(found))
        else:
            found.append(Message("user" if message.role == "user" else "system", text))
    return found


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
