"""Tools, in the Settings view: the app's own tools, and the tool servers with their states and logs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import gradio as gr

from app.conversation import ChatTools
from app.conversation.chat_tools import BUNDLED
from app.errors import ToolFailed
from app.settings import ToolSettings
from app.tools.importing import LONGEST, imported_servers, server_from
from app.ui.frame.event_handlers import LISTEN, UPLOADED, Actions, PageEvents, submit_box, try_at_box
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.page_connections import PageValue
from app.ui.frame.page_updates import CachedRenderer, Parts
from app.ui.frame.services import Services
from app.ui.frame.templates import render_macro
from app.ui.frame.uploads import text_of_upload, use_uploads
from app.values.tools import ServerStatus, ToolServer

TEMPLATE = "tools.html"
BOX = "tool-server"


def with_server(tools: ToolSettings, server: ToolServer, at: int | None = None) -> ToolSettings:
    """Insert a server, by default after the others. A name that is taken gets a number."""
    taken = {*BUNDLED, *(one.name for one in tools.servers)}
    names = (f"{server.name} {number}" if number > 1 else server.name for number in count(1))
    named = replace(server, name=next(name for name in names if name not in taken))
    at = len(tools.servers) if at is None else at
    return replace(tools, servers=(*tools.servers[:at], named, *tools.servers[at:]))


class ToolsActions(Actions):
    @property
    def _tools(self) -> ChatTools:
        return self._services.conversations.tools

    def add(self, text: str) -> tuple[str, str]:
        """Add and start the server of a command or an address, or the servers of `mcpServers` JSON. Returns the
        box's text, and what is wrong with it."""
        return submit_box(BOX, text, lambda: self._add(text))

    def add_file(self, path: str | None) -> str:
        """Add and start the servers of an uploaded file. Returns what is wrong with it, as a fault of the box."""
        return try_at_box(BOX, lambda: self._add(use_uploads([path or ""], text_of_upload), is_json=True))[1]

    def act(self, logs: set[str], event: gr.EventData) -> None:
        do, name, value = pressed(event)
        handlers: dict[str, Callable[[], object]] = {
            "turn": lambda: self._turn(name, bool(value)),
            "log": lambda: logs.symmetric_difference_update({name}),
            "restart": lambda: self._restart(name),
            "remove": lambda: self._remove(name),
        }
        if do in handlers:
            self._succeeded(handlers[do])

    def _add(self, text: str, is_json: bool = False) -> None:
        if len(text) > LONGEST:
            raise ToolFailed(f"This has more than {LONGEST:,} characters: paste only the mcpServers part.")
        is_json = is_json or text.lstrip().startswith(("{", "[", '"mcpServers"'))
        found = imported_servers(text) if is_json else (server_from(text),)
        added: list[str] = []

        def with_found(tools: ToolSettings) -> ToolSettings:
            for one in found:
                if all(replace(one, name=known.name, is_on=known.is_on) != known for known in tools.servers):
                    tools = with_server(tools, one)
                    added.append(tools.servers[-1].name)
            if not added:
                raise ToolFailed("Nothing was added: this is in the list already.")
            return tools

        self._services.change_tools(with_found)
        self._tools.start(added)

    def _turn(self, name: str, is_on: bool) -> None:
        """Turn a tool of the app or a server on or off. Turning a server off ends its process or connection."""

        def turned(tools: ToolSettings) -> ToolSettings:
            servers = (replace(one, is_on=is_on) if one.name == name else one for one in tools.servers)
            own = {*tools.bundled, name} if is_on else {*tools.bundled} - {name}
            return ToolSettings(tuple(servers), tuple(one for one in BUNDLED if one in own))

        self._services.change_tools(turned)
        if not is_on:
            self._tools.servers.restart(name)

    def _restart(self, name: str) -> None:
        self._tools.servers.restart(name)
        self._tools.start([name])

    def _remove(self, name: str) -> None:
        before = self._services.settings.tools.servers
        at, removed = next(one for one in enumerate(before) if one[1].name == name)

        def remove() -> None:
            rest = (*before[:at], *before[at + 1 :])
            self._services.change_tools(lambda tools: replace(tools, servers=rest))
            self._tools.servers.restart(name)  # ends the server

        def restore() -> None:
            self._services.change_tools(lambda tools: with_server(tools, removed, at))

        self._services.deletions.delete(f"{name} was removed.", remove, restore)


Row = tuple[ToolServer, ServerStatus, Sequence[str] | None]
"""A server, its status, and its log if that is shown."""


class ToolsRenderer(CachedRenderer):
    def __init__(self, services: Services, logs: set[str]) -> None:
        self._services = services
        self._logs = logs

    def inputs(self) -> tuple[tuple[str, ...], list[Row]]:
        tools = self._services.settings.tools
        servers, logs = self._services.conversations.tools.servers, self._logs
        return tools.bundled, [
            (one, servers.status(one.name), servers.log(one.name) if one.name in logs else None)
            for one in tools.servers
        ]

    def draw(self, inputs: tuple[tuple[str, ...], list[Row]]) -> Parts:
        chosen, rows = inputs
        own = render_macro(TEMPLATE, "own", chosen=chosen)
        return {"own-tools": own, "tool-servers": render_macro(TEMPLATE, "servers", rows=rows)}


def build_tools(services: Services, events: PageEvents) -> PageValue[set[str]]:
    """Build the section inside the current Blocks. Returns the names of the servers whose logs a page shows."""
    actions, state = ToolsActions(services), PageValue(set[str])
    with gr.Column(elem_classes="part"):
        own = gr.HTML(elem_id="own-tools", js_on_load=LISTEN)
    with gr.Column(elem_classes="part"):
        servers = gr.HTML(elem_id="tool-servers", js_on_load=LISTEN)
        box = gr.Textbox(
            label="Command or address", max_lines=8, elem_id=BOX, placeholder="uvx mcp-server-time, or https://…/mcp",
            info="Or paste the mcpServers JSON of another program. A command runs as a program with your rights: "
            "add only what you trust.",
        )  # fmt: skip
        with gr.Row(elem_classes="add-tools"):
            add = gr.Button("Add", elem_id="add-tool-server", size="sm", scale=0, min_width=0)
            file = gr.UploadButton("Import a file…", elem_id="import-tools", size="sm", scale=0, min_width=0)
    for submitted in (add.click, box.submit):
        events.on(submitted, actions.add, box, [box, events.faults])
    events.on(file.upload, actions.add_file, file, events.faults, **UPLOADED)
    for one in (own, servers):
        events.on(one.click, actions.act, state, trigger_mode="multiple")
    return state
