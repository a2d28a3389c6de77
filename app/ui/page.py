"""The page as a web app: Gradio's, with everything closed that it would open."""

import asyncio
import re
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import fastapi
import gradio as gr
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import NotUploaded
from app.ui.frame.app_context import AppContext, Endpoint
from app.ui.frame.file_export import add_library_routes
from app.ui.frame.page_events import PageEvents, toast
from app.ui.frame.page_sessions import Pages, PageSession
from app.ui.frame.page_socket import add_page_socket
from app.ui.frame.page_stream import PolledRenderer
from app.ui.frame.services import Services
from app.ui.frame.theme import asset, head, make_theme
from app.ui.frame.top_bar import Notice
from app.ui.frame.uploads import LARGEST_UPLOAD, add_upload_route, named_files, upload_at
from app.ui.layout import build_page, connect_page, views_of
from app.ui.models.inventory import InventoryCache
from app.ui.welcome.view import ModelGetter, OfferActions

BUSY_SECONDS, IDLE_SECONDS = 0.01, 0.1
"""How often Gradio's queue looks for events, while a page is used and while none is."""
BUSY_FOR = 10.0
"""Seconds for which pages count as used after a request or an input."""
PROGRESS_SECONDS = 60.0
"""How often Gradio looks for progress bars, of which this page has none."""
SESSIONS = 32
"""How many pages' sessions Gradio keeps."""
NEEDED = re.compile(
    r"/|/config|/theme\.css|/favicon\.ico|/(assets|static|foresight)/.+"
    r"|/gradio_api/(queue/(join|data)|cancel|upload)"
)
"""The paths that the page asks for."""


def build_app(services: Services, app_context: AppContext, endpoint: Endpoint) -> fastapi.FastAPI:
    """The web app with the page at its root."""
    app, pages = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None), Pages()
    blocks, views = build_blocks(services, app_context, endpoint, pages)
    add_upload_route(app, app_context.data_dir)
    _add_raising(app, endpoint)
    pace = QueuePace(blocks._queue)
    add_page_socket(app, pages, views, pace.speed_up)
    add_library_routes(app, services.conversations.stores, app_context.data_dir)
    gr.mount_gradio_app(
        app,
        blocks,
        path="/",
        footer_links=[],
        allowed_paths=[],
        blocked_paths=[],
        max_file_size=LARGEST_UPLOAD,
        show_error=False,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        favicon_path=str(asset("icon.svg")),
        theme=make_theme(),
        head=head(services.settings.theme),
        **_without_run_history(),
    )
    blocks.has_launched = True  # else Gradio does not check a file's folder: only its own `launch` sets it
    app.add_middleware(NeededRoutes, on_request=pace.speed_up)
    return app


class PageBlocks(gr.Blocks):
    """Blocks whose events may name no file but what was uploaded to the page."""

    async def preprocess_data(
        self, block_fn: Any, inputs: list[Any], state: Any, explicit_call: bool = False
    ) -> Any:
        """Look at what an event sends before a component does: Gradio would copy its files and fetch its URLs."""
        try:
            for path in named_files(inputs):
                upload_at(path)
        except NotUploaded as error:
            raise gr.Error(str(error), print_exception=False) from error
        return await super().preprocess_data(block_fn, inputs, state, explicit_call)


class QueuePace:
    """Has Gradio's queue look for events often while a page is used, and seldom while none is.

    The queue knows no other way to wait than to look again: a thousand times a second, if it is left alone, which
    takes 6% of a core. A page tells of a pressed button or key before the event comes: see page_socket.py."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._timer: asyncio.TimerHandle | None = None
        queue.progress_update_sleep_when_free = PROGRESS_SECONDS
        self._slow_down()

    def speed_up(self) -> None:
        """A page is used. Call this on the event loop."""
        self._queue.sleep_when_free = BUSY_SECONDS
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(BUSY_FOR, self._slow_down)

    def _slow_down(self) -> None:
        self._queue.sleep_when_free = IDLE_SECONDS


class NeededRoutes:
    """ASGI middleware: our own routes and those of Gradio's that the page asks for; all else is not found.

    Gradio has many more: files of this machine, other addresses through its proxy, its API, its monitoring."""

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


def build_blocks(
    services: Services, app_context: AppContext, endpoint: Endpoint, pages: Pages
) -> tuple[gr.Blocks, Callable[[PageSession], Sequence[PolledRenderer]]]:
    """Return the page as Gradio Blocks, and what draws each page."""
    inventory, notice = InventoryCache(services), Notice(app_context.note)
    events, getter = PageEvents(pages, toast), ModelGetter(services, inventory)
    blocks = PageBlocks(analytics_enabled=False, title="Foresight", fill_width=True, fill_height=True)
    with blocks:
        page = build_page(services, notice, events)
        connect_page(blocks, page, services, inventory, app_context, endpoint, events)
        page.chat.welcome.connect(blocks, OfferActions(services, inventory, getter, toast), events)
    # Gradio would keep some 10,000 sessions with a copy of the page's configuration each. The app has its own.
    blocks.state_session_capacity = SESSIONS
    return blocks, views_of(page, services, inventory, getter, notice)


def _add_raising(app: fastapi.FastAPI, endpoint: Endpoint) -> None:
    @app.post("/foresight/raise")
    def bring_to_front() -> fastapi.Response:
        """Bring the app's own window to the front; where it has none, the address that a second start can open."""
        endpoint.raise_requested.set()
        return (
            fastapi.Response(status_code=204)
            if endpoint.is_native
            else PlainTextResponse(endpoint.one_time_url())
        )


def _without_run_history() -> dict[str, Any]:
    """Newer releases keep a history of every run unless told not to; those from 6.22 on may not know of it yet."""
    knows = "run_history" in signature(gr.mount_gradio_app).parameters
    return {"run_history": False} if knows else {}
