"""The page as a web app: the routes of our own, and Gradio's page at the root."""

from collections.abc import Callable, Sequence

import fastapi
from starlette.responses import PlainTextResponse

from app.ui.frame.file_export import add_library_routes
from app.ui.frame.gradio_internals import PageBlocks, QueuePace, mount
from app.ui.frame.page_events import PageEvents, toast
from app.ui.frame.page_sessions import Pages, PageSession
from app.ui.frame.page_socket import add_page_socket
from app.ui.frame.page_stream import PolledRenderer
from app.ui.frame.services import AppContext, Endpoint, Services
from app.ui.frame.theme import asset, head, make_theme
from app.ui.frame.top_bar import Notice
from app.ui.frame.uploads import LARGEST_UPLOAD, add_upload_route, check_uploads
from app.ui.layout import build_page, connect_page, views_of
from app.ui.models.inventory import InventoryCache
from app.ui.welcome.view import ModelGetter, OfferActions


def build_app(services: Services, app_context: AppContext, endpoint: Endpoint) -> fastapi.FastAPI:
    """Return the web app with the page at its root."""
    app, pages = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None), Pages()
    blocks, views = build_blocks(services, app_context, endpoint, pages)
    pace = QueuePace(blocks)
    add_upload_route(app, app_context.data_dir)
    add_page_socket(app, pages, views, pace.speed_up)
    add_library_routes(app, services.conversations.stores, app_context.data_dir)

    @app.post("/foresight/raise")
    def bring_to_front() -> fastapi.Response:
        """Bring the app's own window to the front, or return an address that a second start can open."""
        endpoint.raise_requested.set()
        if endpoint.is_native:
            return fastapi.Response(status_code=204)
        return PlainTextResponse(endpoint.one_time_url())

    mount(
        app, blocks, pace, max_file_size=LARGEST_UPLOAD, favicon_path=str(asset("icon.svg")),
        theme=make_theme(), head=head(services.settings.theme),
    )  # fmt: skip
    return app


def build_blocks(
    services: Services, app_context: AppContext, endpoint: Endpoint, pages: Pages
) -> tuple[PageBlocks, Callable[[PageSession], Sequence[PolledRenderer]]]:
    """Return the page as Gradio Blocks, and what draws each page."""
    inventory, notice = InventoryCache(services), Notice(app_context.note)
    events, getter = PageEvents(pages, toast), ModelGetter(services, inventory)
    blocks = PageBlocks(
        check_uploads, analytics_enabled=False, title="Foresight", fill_width=True, fill_height=True
    )
    with blocks:
        page = build_page(services, app_context, endpoint, notice, events)
        connect_page(blocks, page, services, inventory, events)
        page.chat.welcome.connect(blocks, OfferActions(services, inventory, getter, toast), events)
    return blocks, views_of(page, services, inventory, getter, notice)
