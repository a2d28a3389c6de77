"""The uses of Gradio's internals, which a new release may change; the tests report by name what has changed."""

import asyncio
import re
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import fastapi
import gradio as gr
from gradio.route_utils import upload_fn
from gradio.utils import get_upload_folder
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import AppError

BUSY_SECONDS, IDLE_SECONDS = 0.01, 0.1
"""Seconds between two polls for events by Gradio's queue, while a page is used and while none is."""
BUSY_FOR = 10.0
"""Seconds for which pages count as used after a request or an input."""
PROGRESS_SECONDS = 60.0
"""Seconds between two polls by Gradio for progress bars, which this page does not have."""
SESSIONS = 32
"""How many sessions Gradio keeps. Its default is 10,000, and each has a copy of the page's configuration."""
UPLOAD = "/gradio_api/upload"
"""The path to which Gradio's components send files."""
NEEDED = re.compile(
    r"/|/config|/theme\.css|/favicon\.ico|/(assets|static|foresight)/.+"
    rf"|/gradio_api/queue/(join|data)|/gradio_api/cancel|{UPLOAD}"
)
"""The paths that the page may request."""


class Press(NamedTuple):
    """What a button on the page sends with its event: an action, what it applies to, and a value."""

    do: str = ""
    name: str = ""
    value: str = ""


def pressed(event: gr.EventData) -> Press:
    """Return what the page's script sent with an event; a missing value is ""."""
    sent = (event._data.get(key) for key in Press._fields)
    return Press(*("" if each is None else str(each) for each in sent))


class PageBlocks(gr.Blocks):
    """Blocks that check what an event sends before a component copies files or fetches URLs named in it."""

    def __init__(self, check_inputs: Callable[[list[Any]], None], **options: Any) -> None:
        """Take `check_inputs`, which raises an AppError for inputs that must not be used."""
        self.is_whole = False
        super().__init__(**options)
        self._check_inputs = check_inputs
        self.state_session_capacity = SESSIONS  # only Gradio's own `launch` takes it as an argument

    def get_config_file(self) -> Any:
        """Return the page's configuration; {} until the page is mounted, because Gradio asks for the configuration
        twice before, and making it takes long."""
        return super().get_config_file() if self.is_whole else {}

    async def preprocess_data(
        self, block_fn: Any, inputs: list[Any], state: Any, explicit_call: bool = False
    ) -> Any:
        """Pass the inputs on to the components, or show on the page why they are refused."""
        try:
            self._check_inputs(inputs)
        except AppError as error:
            raise gr.Error(str(error), print_exception=False) from error
        return await super().preprocess_data(block_fn, inputs, state, explicit_call)


class QueuePace:
    """Makes Gradio's queue poll for events often while a page is used, and seldom while no page is. By default the
    queue polls a thousand times a second, which takes 6% of a core. A page announces a pressed button or key before
    its event arrives: see page_connections.py."""

    def __init__(self, blocks: gr.Blocks) -> None:
        self._queue: Any = blocks._queue
        self._timer: asyncio.TimerHandle | None = None
        self._queue.progress_update_sleep_when_free = PROGRESS_SECONDS
        # After each event Gradio would sum up all events in a pandas table, for a monitoring page that is not
        # served.
        self._queue.ANALYTICS_MAX_EVENTS, self._queue.ANAYLTICS_CACHE_FREQUENCY = 1, 2**31
        self._slow_down()

    def speed_up(self) -> None:
        """Poll often for BUSY_FOR seconds, because a page is used. Call this on the event loop."""
        self._queue.sleep_when_free = BUSY_SECONDS
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(BUSY_FOR, self._slow_down)

    def _slow_down(self) -> None:
        self._queue.sleep_when_free = IDLE_SECONDS


class NeededRoutes:
    """ASGI middleware that answers 404 except for our own routes and those of Gradio's routes that the page needs.

    Gradio has many more: files of this machine, a proxy, its API, monitoring. Each request calls `on_request`."""

    def __init__(self, app: ASGIApp, on_request: Callable[[], None]) -> None:
        self._app = app
        self._on_request = on_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._on_request()
        if scope["type"] == "http" and not NEEDED.fullmatch(scope["path"]):
            await PlainTextResponse("Not found.", 404)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def mount(app: fastapi.FastAPI, blocks: PageBlocks, pace: QueuePace, **options: Any) -> None:
    """Serve the page at the app's root. Turns off all features of Gradio that would open further routes."""
    # Newer releases keep a history of every run by default; not all releases from 6.22 on have this option.
    if "run_history" in signature(gr.mount_gradio_app).parameters:
        options["run_history"] = False
    blocks.is_whole = True
    gr.mount_gradio_app(
        app, blocks, path="/", footer_links=[], allowed_paths=[], blocked_paths=[], show_error=False,
        ssr_mode=False, enable_monitoring=False, pwa=False, mcp_server=False, **options,
    )  # fmt: skip
    blocks.has_launched = True  # as Gradio's `launch` does; otherwise Gradio does not check a file's folder
    app.add_middleware(NeededRoutes, on_request=pace.speed_up)


def upload_folder() -> Path:
    """Return the folder in which Gradio expects uploads."""
    return Path(get_upload_folder())


async def receive_files(request: fastapi.Request, folder: str, max_bytes: int) -> list[str]:
    """Write the files of an upload into this folder, and return their paths. In Gradio's own route, two uploads of
    the same file have one path, so the first event would delete the file that the second event names."""
    paths, *_ = await upload_fn(request, folder, max_bytes, None)
    return list(paths)
