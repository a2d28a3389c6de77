"""Values of tools that a model may call: the servers that offer them, the tools, and the calls in a reply."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.values.validation import require, require_one_of

CallState = Literal["asked", "running", "done", "failed", "refused"]
"""The state of a call: it waits for the user, runs, gave a result, failed, or was refused by the user."""
NO_ARGUMENTS = '{"type": "object", "properties": {}}'
"""The JSON Schema of a tool without arguments."""


@dataclass(frozen=True, slots=True)
class ToolServer:
    """A server of the Model Context Protocol (MCP): a program that is started (`command`), or an `address`.

    `environment` are additional variables of the program, and `headers` are sent to the address; both may hold
    secrets. A server that is not `is_on` is neither started nor offered in chats."""

    name: str
    command: tuple[str, ...] = ()
    address: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    is_on: bool = True

    def __post_init__(self) -> None:
        require(bool(self.name.strip()), "a tool server must have a name", self.name)
        is_one = bool(self.command) != bool(self.address)
        require(is_one, "a tool server is either a command or an address", self.address or self.command)
        is_web = not self.address or self.address.startswith(("http://", "https://"))
        require(is_web, "the address of a tool server must begin with http:// or https://", self.address)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of a server. `schema` is the JSON Schema of its arguments, as JSON.

    `is_read_only` is what the server says of it. With `asks_always` each call needs the user's permission."""

    server: str
    name: str
    description: str = ""
    schema: str = NO_ARGUMENTS
    is_read_only: bool = False
    asks_always: bool = False


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A call of a tool in a reply, whose text[start:end] is the call as the model wrote it.

    `arguments` is JSON. `result` is what the model reads: the tool's answer, or why there is none. `tokens` is the
    number of tokens of the result."""

    id: str
    server: str
    name: str
    arguments: str
    start: int
    end: int
    state: CallState = "asked"
    result: str = ""
    tokens: int = 0
    asks_always: bool = False

    def __post_init__(self) -> None:
        require_one_of(CallState, "state of a call", self.state)
