"""Tools, in the Settings view: the app's own tools, and the tool servers, which are added, watched and removed."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Literal
from urllib.parse import urlsplit

import gradio as gr

from app.conversation.chat_tools import BUNDLED, DOCUMENTS, PAGES
from app.errors import ToolFailed, impossible_values
from app.settings import ToolSettings
from app.tools import imported_servers, server_from
from app.ui.frame.event_handlers import (
    LISTEN,
    UPLOADED,
    Notify,
    PageEvents,
    succeeded,
    toast,
    try_at_box,
    try_or_notify,
)
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.page_connections import PageValue
from app.ui.frame.page_stream import Parts
from app.ui.frame.services import Services
from app.ui.frame.templates import render_macro
from app.ui.frame.uploads import text_of_upload, use_uploads
from app.values.display_text import counted
from app.values.tools import ServerStatus, ServerText, Tool, ToolServer

TEMPLATE = "tools.html"
BOX = "tool-server"
LONGEST = 1_000_000
"""Maximum characters of what is typed, pasted or imported."""
OWN = {
    PAGES: "Reads a web page when the model asks for it. You are asked each time.",
    DOCUMENTS: "Lets the model search your documents. Nothing leaves this computer unless the model is on another.",
}
"""What each of the app's own tools does, and what leaves this computer."""
Fold = Literal["", "tools", "log"]
"""The part of a server that is shown below it: what it offers, or its log."""
Texts = tuple[Sequence[ServerText], str]
"""The resources and prompts of a server, and why they could not be listed."""


@dataclass(slots=True)
class ToolsState:
    """What a page shows of the servers, by their names: the open folds, and the resources and prompts in them."""

    folds: dict[str, Fold] = field(default_factory=dict)
    texts: dict[str, Texts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerRow:
    """A server as it is shown."""

    server: ToolServer
    status: ServerStatus
    fold: Fold
    tools: tuple[Tool, ...] = ()
    texts: Texts = ((), "")

    @property
    def state(self) -> str:
        """The state in words."""
        if not self.server.is_on:
            return "Off"
        tools = counted(self.status.tools, "tool")
        words = {"off": "Not started", "starting": "Starting…", "failed": "Failed", "ready": tools}
        return words[self.status.state]

    @property
    def place(self) -> str:
        """The command, or the address without its login and its query, because these may be secret."""
        if self.server.command:
            return shlex.join(self.server.command)
        address = urlsplit(self.server.address)
        place = f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"
        return f"{place}?…" if address.query else place

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of environment variables and headers, without their values."""
        return (*self.server.environment, *self.server.headers)


def with_server(tools: ToolSettings, server: ToolServer, at: int | None = None) -> ToolSettings:
    """Insert a server, by default as the last one. A name that is taken gets a number."""
    taken = {*BUNDLED, *(one.name for one in tools.servers)}
    names = (f"{server.name} {number}" if number > 1 else server.name for number in count(1))
    named = replace(server, name=next(name for name in names if name not in taken))
    at = len(tools.servers) if at is None else at
    return replace(tools, servers=(*tools.servers[:at], named, *tools.servers[at:]))


class ToolsActions:
    """The section's event handlers; `notify` shows what went wrong.

    Servers are started and asked on threads of their own, because that may take minutes."""

    def __init__(self, services: Services, notify: Notify) -> None:
        self._services = services
        self._servers = services.conversations.tools.servers
        self._notify = notify

    def add(self, text: str) -> tuple[str, str]:
        """Add the server of a command or an address, or those of `mcpServers` JSON, and start what was added.

        Returns the box's text, and what is wrong with it."""
        is_added, faults = try_at_box(BOX, lambda: self._add(text))
        return "" if is_added else text, faults

    def add_file(self, path: str | None, typed: str) -> tuple[str, str]:
        """Add the servers of an uploaded file, whose text is put into the box if something is wrong with it."""
        texts: list[str] = []
        is_read, faults = try_at_box(BOX, lambda: texts.append(use_uploads([path or ""], _text_of)))
        return self.add(texts[0]) if is_read else (typed, faults)

    def act(self, state: ToolsState, event: gr.EventData) -> None:
        """Handle a button of the lists."""
        do, name, value = pressed(event)
        handlers: dict[str, Callable[[], object]] = {
            "turn-own": lambda: self._turn_own(name, bool(value)),
            "turn": lambda: self._turn(name, bool(value)),
            "tools": lambda: self._unfold(state, "tools", name),
            "log": lambda: self._unfold(state, "log", name),
            "restart": lambda: self._restart(name),
            "remove": lambda: self._remove(name),
        }
        if do in handlers:
            succeeded(self._notify, handlers[do])

    def _add(self, text: str) -> None:
        if len(text) > LONGEST:
            raise ToolFailed(f"This has more than {LONGEST:,} characters: paste only the mcpServers.")
        with impossible_values():
            found = imported_servers(text) if text.lstrip().startswith("{") else (server_from(text),)
        added: list[str] = []

        def with_found(tools: ToolSettings) -> ToolSettings:
            for one in found:
                if not any(
                    replace(one, name=known.name, is_on=known.is_on) == known for known in tools.servers
                ):
                    tools = with_server(tools, one)
                    added.append(tools.servers[-1].name)
            if not added:
                raise ToolFailed("Nothing was added: this is in the list already.")
            return tools

        self._services.choose_tools(with_found)
        for name in added:
            self._start(name)

    def _turn_own(self, name: str, is_on: bool) -> None:
        def turned(tools: ToolSettings) -> ToolSettings:
            chosen = {*tools.bundled, name} if is_on else {*tools.bundled} - {name}
            return replace(tools, bundled=tuple(one for one in BUNDLED if one in chosen))

        self._services.choose_tools(turned)

    def _turn(self, name: str, is_on: bool) -> None:
        """Turn a server on or off; one that is off is ended."""

        def turned(tools: ToolSettings) -> ToolSettings:
            servers = (replace(one, is_on=is_on) if one.name == name else one for one in tools.servers)
            return replace(tools, servers=tuple(servers))

        self._services.choose_tools(turned)
        if not is_on:
            self._servers.restart(name)

    def _unfold(self, state: ToolsState, fold: Fold, name: str) -> None:
        """Show this part of a server, which is started to list what it offers; hide the part if it is shown."""
        state.folds[name] = "" if state.folds.get(name) == fold else fold
        if state.folds[name] == "tools":
            self._start(name, state)

    def _restart(self, name: str) -> None:
        self._servers.restart(name)
        self._start(name)

    def _start(self, name: str, state: ToolsState | None = None) -> None:
        """Start a server; list its resources and prompts, too, if a page shows them."""

        def listed() -> Sequence[ServerText]:
            self._servers.tools(name)
            return (*self._servers.resources(name), *self._servers.prompts(name)) if state else ()

        def run() -> None:
            problems: list[str] = []  # that of a server which did not start is in its status, too
            found = try_or_notify(problems.append, listed, ())
            if state:
                state.texts[name] = found, "".join(problems)

        Thread(target=run, daemon=True).start()

    def _remove(self, name: str) -> None:
        before = self._services.settings.tools.servers
        at, removed = next(one for one in enumerate(before) if one[1].name == name)

        def remove() -> None:
            rest = tuple(one for one in before if one.name != name)
            self._services.choose_tools(lambda tools: replace(tools, servers=rest))
            self._servers.restart(name)  # which ends it

        def restore() -> None:
            self._services.choose_tools(lambda tools: with_server(tools, removed, at))

        self._services.deletions.delete(f"{name} was removed.", remove, restore)


def _text_of(uploads: Sequence[Path]) -> str:
    if uploads[0].stat().st_size > LONGEST:
        raise ToolFailed(f"The file has more than {LONGEST:,} bytes: choose one with mcpServers.")
    return text_of_upload(uploads[0])


class ToolsRenderer:
    """Renders the lists of tools and servers, for one page."""

    def __init__(self, services: Services, state: ToolsState) -> None:
        self._services = services
        self._state = state
        self._drawn: object = None
        self._parts: Parts = {}

    def render(self) -> Parts:
        """Return the parts; the same object if nothing changed."""
        tools = self._services.settings.tools
        rows = [self._row(server) for server in tools.servers]
        if self._drawn != (tools.bundled, rows):
            self._drawn = (tools.bundled, rows)
            own = render_macro(TEMPLATE, "own", tools=OWN, chosen=tools.bundled)
            self._parts = {"own-tools": own, "tool-servers": render_macro(TEMPLATE, "servers", rows=rows)}
        return self._parts

    def _row(self, server: ToolServer) -> ServerRow:
        """Return the row; what no open fold shows is left out, so that its changes draw nothing."""
        servers, name = self._services.conversations.tools.servers, server.name
        status, fold = servers.status(name), self._state.folds.get(name, "")
        if fold == "tools":
            status, texts = replace(status, log=()), self._state.texts.get(name, ((), ""))
            return ServerRow(server, status, fold, servers.known(name), texts)
        return ServerRow(server, status if fold else replace(status, log=()), fold)


def build_tools(services: Services, events: PageEvents) -> PageValue[ToolsState]:
    """Build the section inside the current Blocks and connect its events. Returns what each page shows."""
    actions, state = ToolsActions(services, toast), PageValue(ToolsState)
    with gr.Column(elem_classes="part"):
        gr.HTML(render_macro(TEMPLATE, "about_tools"), js_on_load=None)
        own = gr.HTML(elem_id="own-tools", js_on_load=LISTEN)
    with gr.Column(elem_classes="part"):
        gr.HTML(render_macro(TEMPLATE, "about_servers"), js_on_load=None)
        servers = gr.HTML(elem_id="tool-servers", js_on_load=LISTEN)
        box = gr.Textbox(
            label="Command or address", max_lines=8, elem_id=BOX,
            placeholder="uvx mcp-server-time, or https://…/mcp",
            info="Or the mcpServers JSON that other programs have. A command runs as a program with your rights: "
            "add only what you trust.",
        )  # fmt: skip
        with gr.Row(elem_classes="add-tools"):
            add = gr.Button("Add", elem_id="add-tool-server", size="sm", scale=0, min_width=0)
            file = gr.UploadButton("Import a file…", elem_id="import-tools", size="sm", scale=0, min_width=0)
    for submitted in (add.click, box.submit):
        events.on(submitted, actions.add, box, [box, events.faults])
    events.on(file.upload, actions.add_file, [file, box], [box, events.faults], **UPLOADED)
    for one in (own, servers):
        events.on(one.click, actions.act, state, trigger_mode="multiple")
    return state
