"""Values of tools that a model may call: the servers that offer them, the tools, and the calls in a reply."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal
from urllib.parse import urlsplit

from app.values.chat_format import CLOSING, OPENING
from app.values.validation import require, require_one_of, web_host

CallState = Literal["writing", "asked", "running", "done", "failed", "refused"]
"""The state of a call. "writing": the model writes it; "asked": the user must allow it; "done": it has a result."""
ServerState = Literal["off", "starting", "ready", "failed"]
"""The state of a tool server's process. A server that is "off" or "failed" is usually started at its next use."""
NO_ARGUMENTS = '{"type": "object", "properties": {}}'


@dataclass(frozen=True, slots=True)
class ToolServer:
    """A server of the Model Context Protocol (MCP): a program that is started (`command`), or an `address`.

    `environment` are additional variables of the program, and `headers` are sent to the address; both may contain
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
        rule = "the address of a tool server must be one like https://example.org/mcp"
        is_web = bool(self.host) and not any(map(str.isspace, self.address))
        require(not self.address or is_web, rule, self.address)

    @property
    def host(self) -> str:
        """The host of the address; "" for a command, and for an invalid address."""
        return web_host(self.address)

    @property
    def place(self) -> str:
        """The command, or the address without its login and its query, because these may be secret."""
        parts = urlsplit(self.address)
        host = parts.netloc.rpartition("@")[2]
        shown = f"{parts.scheme}://{host}{parts.path}{'?…' if parts.query else ''}"
        return shown if self.address else shlex.join(self.command)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of a server. `schema` is the JSON Schema of its arguments, as JSON. With `asks_always` each call needs
    the user's permission."""

    server: str
    name: str
    description: str = ""
    schema: str = NO_ARGUMENTS
    asks_always: bool = False


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A call of a tool in a reply; text[start:end] is the text of this call and of the calls made with it.

    While the model writes the call, `end` is 0. `arguments` is JSON. The model reads the `result`: the tool's
    answer, or the reason why there is none. `tokens` is the number of tokens of the result."""

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


@dataclass(frozen=True, slots=True)
class ServerText:
    """A text that a server offers: a resource, which has a `uri`, or a prompt, which may have `arguments`."""

    server: str
    name: str
    description: str = ""
    uri: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The state of a tool server, its last failure, and what it offers."""

    state: ServerState = "off"
    problem: str = ""
    tools: tuple[Tool, ...] = ()
    texts: tuple[ServerText, ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """A part of a reply: a text that the model wrote, and the calls after that text."""

    text: str
    calls: tuple[CalledTool, ...] = ()


def rounds_of(text: str, calls: Sequence[CalledTool]) -> Iterator[Round]:
    """Yield the rounds of a reply. The last round has no calls, and may be empty."""
    begin = 0
    for (start, end), together in groupby(calls, lambda call: (call.start, call.end)):
        yield Round(text[begin:start], tuple(together))
        begin = end or len(text)
    yield Round(text[begin:])


def shown_text(text: str, calls: Sequence[CalledTool]) -> str:
    """Return a reply as Markdown. Thoughts, and calls with their results, become quotations."""
    parts = list[str]()
    for each in rounds_of(text, calls):
        thought, _, answer = each.text.lstrip().removeprefix(OPENING).partition(CLOSING)
        if not each.text.lstrip().startswith(OPENING):
            thought, answer = "", each.text
        parts += [quotation(f"*Thought*\n\n{thought.strip()}") if thought.strip() else "", answer.strip("\n")]
        for call in each.calls:
            parts.append(quotation(f"**{call.name}** `{call.arguments}`\n\n{call.result or call.state}"))
    return "\n\n".join(filter(None, parts))


def quotation(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())
