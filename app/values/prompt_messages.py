"""What a model is asked: the messages of a chat, calls of tools among them, or raw text."""

from dataclasses import dataclass
from typing import Literal, get_args

from app.values.validation import require

Role = Literal["system", "user", "assistant"]
PromptRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool. Its arguments are JSON; `arguments_as_text` where a template wants that text itself."""

    id: str
    name: str
    arguments: str
    arguments_as_text: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat. `calls` are the assistant's; a tool's message answers the call of its id and name."""

    role: PromptRole
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        require(self.role in get_args(PromptRole), "role must be system, user, assistant or tool", self.role)


Prompt = tuple[Message, ...] | str
"""A chat's messages, or raw text without a chat template."""
