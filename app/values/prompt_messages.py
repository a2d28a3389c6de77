"""The prompt of a model: the messages of a chat, which may call tools, or raw text."""

from dataclasses import dataclass
from typing import Literal, get_args

from app.values.validation import require

Role = Literal["system", "user", "assistant"]
PromptRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool. `arguments` is JSON; with `arguments_as_text` the chat template gets it as a string, not
    parsed."""

    id: str
    name: str
    arguments: str
    arguments_as_text: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat. `calls` are the assistant's calls of tools. A tool's message answers the call with its
    `call_id` and `name`."""

    role: PromptRole
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        require(self.role in get_args(PromptRole), "role must be system, user, assistant or tool", self.role)


Prompt = tuple[Message, ...] | str
"""A chat's messages, or raw text that is not put into a chat template."""
