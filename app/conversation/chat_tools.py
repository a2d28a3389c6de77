"""The tools that a chat may use: those of the user's MCP servers, and the two that come with the app."""

import json
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from app.conversation.tool_use import ToolUse, function_of
from app.documents.documents import Documents
from app.documents.reading.formats import open_reader
from app.documents.reading.process import TextPiece
from app.errors import ArgumentsRefused, ToolFailed
from app.settings import ToolSettings
from app.tools.mcp_servers import ToolServers, arguments_object
from app.tools.web_page import save_page
from app.values.chat import ChatSettings
from app.values.chat_format import UNKNOWN_FORMAT
from app.values.display_text import counted
from app.values.document import MARGINS
from app.values.messages import ModelInfo
from app.values.tools import CalledTool, Tool, ToolServer

PAGES, DOCUMENTS = "Web pages", "My documents"


def _schema(name: str, description: str) -> str:
    """Return the JSON Schema of a tool with one argument, a text."""
    properties = {name: {"type": "string", "description": description}}
    return json.dumps({"type": "object", "properties": properties, "required": list(properties)})


BUNDLED = {
    PAGES: Tool(
        PAGES,
        "read_web_page",
        "Read the main text of a web page.",
        _schema("address", "The URL of the page"),
        asks_always=True,
    ),
    DOCUMENTS: Tool(
        DOCUMENTS,
        "search_documents",
        "Search the user's documents. Returns the passages that are closest to the question.",
        _schema("question", "What the passages should answer"),
    ),
}
"""The app's own tools, by the names under which they are turned on."""
UNUSUAL = re.compile(r"[^\w./-]+")
"""Matches characters of tool names that are replaced by "_", because a model might not write them correctly."""
NOTHING_FOUND = "Nothing was found in the documents."
Permission = Literal["once", "chat", "refuse"]
"""The user's answer to a call: allow it, allow this tool in this chat until the app ends, or refuse the call."""
CalledServer = ToolServer | None
"""The server of a call; None for the app's own tools."""


class ToolPermissions:
    """The user's answers to calls. They are never stored. Safe to use from any thread.

    A permission for a chat belongs to the server that the user was asked about, not to its name, because another
    server may get this name."""

    def __init__(self) -> None:
        self._allowed: list[tuple[int, CalledServer, str]] = []
        self._answers: dict[str, Permission] = {}
        self._changed = threading.Condition()

    def answer(self, call: CalledTool, permission: Permission) -> None:
        """Record the answer to a call that waits for it."""
        with self._changed:
            self._answers[call.id] = permission
            self._changed.notify_all()

    def allow(self, chat: int, server: CalledServer, call: CalledTool) -> None:
        """Allow the called tool for the whole chat, unless this tool always asks."""
        if not call.asks_always:
            self._allowed.append((chat, server, call.name))

    def is_allowed(self, chat: int, server: CalledServer, call: CalledTool) -> bool:
        return (chat, server, call.name) in self._allowed

    def wait(self, call: CalledTool, seconds: float) -> Permission | None:
        """Return and forget the answer to a call; None if there was no answer within this time."""
        with self._changed:
            self._changed.wait_for(lambda: call.id in self._answers, seconds)
            return self._answers.pop(call.id, None)


class ChatTools:
    """Lists and calls the tools of a chat. Safe to use from any thread."""

    def __init__(
        self,
        servers: ToolServers,
        documents: Documents,
        settings: Callable[[], ToolSettings],
        contacted: Callable[[str, str], None] = lambda _address, _why: None,
    ) -> None:
        """Use these servers. `contacted` is called with a web page's address and the reason before each request."""
        self.servers = servers
        self.permissions = ToolPermissions()
        self._documents = documents
        self._settings = settings
        self._contacted = contacted

    def names(self) -> tuple[str, ...]:
        """Return the names of the app's own tools and of the servers that are turned on, in this order."""
        settings = self._settings()
        own = [name for name in BUNDLED if name in settings.bundled]
        return (*own, *(one.name for one in settings.servers if one.is_on))

    def server(self, name: str) -> CalledServer:
        """Return the server of this name if it is turned on; None otherwise, and for the app's own tools."""
        return next((one for one in self._settings().servers if one.name == name and one.is_on), None)

    def offered(
        self, chosen: Sequence[str], starts: bool = False, is_stopping: Callable[[], bool] = lambda: False
    ) -> dict[str, Tool]:
        """Return the chosen tools by the names under which the model calls them.

        With `starts`, servers that do not run are started, which may take minutes and may raise ToolFailed.
        Otherwise servers that have not listed their tools are left out."""
        found = dict[str, Tool]()
        for server in self.names():
            if server not in chosen:
                continue
            for tool in self._of(server, starts, is_stopping):
                longer = (f"{server}_{tool.name}{end}" for end in chain([""], count(2)))
                names = (UNUSUAL.sub("_", name) for name in chain([tool.name], longer))
                found[next(name for name in names if name not in found)] = tool
        return found

    def start(self, chosen: Sequence[str]) -> None:
        """Start the chosen servers, each on a thread, so that their tools are known when a message is sent."""

        def start(name: str) -> None:
            with suppress(ToolFailed):  # the server's status reports the failure
                self.offered([name], starts=True)

        for name in chosen:
            threading.Thread(target=start, args=(name,), name="tool server", daemon=True).start()

    @property
    def states(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, self.note(name)) for name in self.names())

    def note(self, name: str) -> str:
        """Return a server's number of tools, its state or its problem; "" for the app's own tools, and for a
        server that has not been started."""
        if name in BUNDLED:
            return ""
        if name not in self.names():
            return "turned off"
        status = self.servers.status(name)
        if status.state == "ready":
            return counted(len(status.tools), "tool")
        return status.problem if status.state == "failed" else {"starting": "starting…"}.get(status.state, "")

    def use(self, tools: dict[str, Tool], model: ModelInfo | None) -> ToolUse:
        chat_format = model.chat_format if model else UNKNOWN_FORMAT
        return ToolUse(tuple(function_of(*one) for one in tools.items()), chat_format=chat_format)

    def call(self, tool: Tool, arguments: str, chat: ChatSettings, is_stopping: Callable[[], bool]) -> str:
        """Call a tool with arguments in JSON, and return its result. Raises AppError, for example ToolFailed."""
        if tool.server not in BUNDLED:
            return self.servers.call(tool, arguments, is_stopping)
        if tool.server == PAGES:
            address = _argument(arguments, "address")
            self._contacted(address, "a page that you let the model read")
            return page_text(address, is_stopping)
        return self._search(_argument(arguments, "question"), chat)

    def _of(self, server: str, starts: bool, is_stopping: Callable[[], bool]) -> Sequence[Tool]:
        if server in BUNDLED:
            return [BUNDLED[server]]
        return self.servers.tools(server, is_stopping) if starts else self.servers.status(server).tools

    def _search(self, question: str, chat: ChatSettings) -> str:
        """Search the chat's collections. If the chat has none, search all collections but attachments of chats."""
        known = self._documents.collections()
        searched = [one.id for one in known if one.id in chat.collections]
        hits = self._documents.search(searched or [one.id for one in known if not one.is_attached], question)
        found = (f"{hit.passage.title}:\n{hit.passage.text.strip()}" for hit in hits)
        return "\n\n".join(found) or NOTHING_FOUND


def page_text(address: str, is_stopping: Callable[[], bool]) -> str:
    """Return a page's address and main text. Raises DocumentUnreadable, and ToolFailed for a page without text."""
    with TemporaryDirectory() as folder:
        found, path = save_page(address, Path(folder), is_stopping)
        pieces = open_reader(path, found).messages()
        text = "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))
    main, _, beside = text.partition(f"\n\n# {MARGINS}\n")
    if not (text := main.strip() or beside.strip()):
        raise ToolFailed(f"There is no text on the page {found}.")
    return f"{found}\n\n{text}"


def _argument(arguments: str, name: str) -> str:
    given = arguments_object(arguments).get(name)
    if isinstance(given, str) and given.strip():
        return given
    raise ArgumentsRefused(f"The tool needs the argument {name}, a text.")
