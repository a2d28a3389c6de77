"""The page as a web app: Gradio's, with everything closed that it would open."""

import re
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import fastapi
import gradio as gr
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import NotUploaded
from app.ui.app_context import AppContext, Endpoint
from app.ui.layout import build_page
from app.ui.library_files import add_library_files
from app.ui.models.inventory import InventoryCache
from app.ui.notice import NoticeActions
from app.ui.page_events import PageEvents
from app.ui.page_sessions import Pages, PageSession
from app.ui.page_socket import add_page_socket
from app.ui.page_stream import View
from app.ui.services import Services
from app.ui.theme import asset, head, make_theme
from app.ui.uploads import RoomForUploads, named_files, upload_at
from app.ui.wiring import toast, views_of, wire_home, wire_page

QUEUE_SECONDS = 0.01
"""How long an event may lie in Gradio's queue before it is seen."""
SESSIONS = 32
"""How many pages' sessions Gradio keeps."""
NEEDED = re.compile(
    r"/|/config|/theme\.css|/favicon\.ico|/(assets|static|foresight)/.+"
    r"|/gradio_api/(queue/(join|data)|cancel|upload|upload_progress)"
)
"""The paths that the page asks for."""
LARGEST_UPLOAD = "300mb"
"""More than a document may have: what is too long is to be told in words, not turned away before."""


def build_app(services: Services, app_context: AppContext, endpoint: Endpoint) -> fastapi.FastAPI:
    """The web app with the page at its root."""
    app, pages = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None), Pages()
    blocks, views = build_blocks(services, app_context, endpoint, pages)
    app.add_middleware(RoomForUploads, data_dir=app_context.data_dir)
    _add_raising(app, endpoint)
    add_page_socket(app, pages, views)
    add_library_files(app, services.conversations.book, app_context.data_dir)
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
    blocks.has_launched = True  # else Gradio does not look where a file lies: only its own `launch` sets it
    app.add_middleware(NeededRoutes)
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


class NeededRoutes:
    """ASGI middleware: our own routes and those of Gradio's that the page asks for; all else is not found.

    Gradio has many more: files of this machine, other addresses through its proxy, its API, its monitoring."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not NEEDED.fullmatch(scope["path"]):
            await PlainTextResponse("Not found.", 404)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def build_blocks(
    services: Services, app_context: AppContext, endpoint: Endpoint, pages: Pages
) -> tuple[gr.Blocks, Callable[[PageSession], Sequence[View[Any]]]]:
    """The page as Gradio Blocks, and what draws each page."""
    inventory, notice = InventoryCache(services), NoticeActions(app_context.note)
    blocks = PageBlocks(analytics_enabled=False, title="Foresight", fill_width=True, fill_height=True)
    with blocks:
        page = build_page(services.settings, inventory.target)
        events = PageEvents(pages, toast)
        wire_page(blocks, page, services, inventory, events)
        wire_home(page, services, app_context, endpoint, notice, events)
    # Its queue looks for events a thousand times a second, which takes 6% of the interpreter from the engine.
    blocks._queue.sleep_when_free = QUEUE_SECONDS
    # Gradio would keep some 10,000 sessions with a copy of the page's configuration each. The app has its own.
    blocks.state_session_capacity = SESSIONS
    return blocks, views_of(page, services, inventory, notice)


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
