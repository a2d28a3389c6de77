"""The page as a web app: Gradio's, with everything closed that it would open."""

from inspect import signature
from typing import Any

import fastapi
import gradio as gr

from app.ui.about.surroundings import Door, Surroundings
from app.ui.desk import Desk
from app.ui.layout import build_page
from app.ui.library_files import add_library_files
from app.ui.models.stock import Shelf
from app.ui.theme import asset, head, make_theme
from app.ui.uploads import RoomForUploads
from app.ui.wiring import wire_home, wire_page

QUEUE_SECONDS = 0.01
"""How long an event may lie in Gradio's queue before it is seen."""
LARGEST_UPLOAD = "300mb"
"""More than a document may have: what is too long is to be told in words, not turned away at the door."""


def build_app(desk: Desk, around: Surroundings, door: Door) -> fastapi.FastAPI:
    """The web app with the page at its root."""
    app = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(RoomForUploads, data_dir=around.data_dir)
    _add_raising(app, door)
    add_library_files(app, desk.conversations.book, around.data_dir)
    gr.mount_gradio_app(
        app,
        build_blocks(desk, around, door),
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
        head=head(desk.settings.theme),
        **_without_run_history(),
    )
    return app


def build_blocks(desk: Desk, around: Surroundings, door: Door) -> gr.Blocks:
    """The page as Gradio Blocks."""
    shelf = Shelf(desk)
    blocks = gr.Blocks(analytics_enabled=False, title="Foresight", fill_width=True, fill_height=True)
    with blocks:
        page = build_page(desk.settings, shelf.wish)
        wire_page(blocks, page, desk, shelf)
        wire_home(blocks, page, desk, around, door)
    # Its queue looks for events a thousand times a second, which takes 6% of the interpreter from the engine.
    blocks._queue.sleep_when_free = QUEUE_SECONDS
    return blocks


def _add_raising(app: fastapi.FastAPI, door: Door) -> None:
    @app.post("/foresight/raise")
    def bring_to_front() -> fastapi.Response:
        """Bring the app's own window to the front, where it has one: a second start asks for it."""
        door.wanted.set()
        return fastapi.Response(status_code=204 if door.is_native else 404)


def _without_run_history() -> dict[str, Any]:
    """Newer releases keep a history of every run unless told not to; those from 6.22 on may not know of it yet."""
    knows = "run_history" in signature(gr.mount_gradio_app).parameters
    return {"run_history": False} if knows else {}
