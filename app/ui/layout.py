"""Builds the page, which has the bar at the top and all views, connects its events, and makes its web app.

top      brand  model                        Chat  Models  Documents  Race  Settings
#notice  the newest warning or note, and a backup that waits for the next start; usually empty
#main    sidebar | thread, message box | the panel's tabs: live numbers, this chat, X-ray
#models, #documents, #race, #settings    the other views
#reading opens a document beside any view;   questions open in dialogs over the page

All views are built, but only one is shown at a time: see assets/ui/foresight.js.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import fastapi
import gradio as gr
from starlette.responses import PlainTextResponse

from app.database.restoring import StagedBackup
from app.ui.chat.chat_documents import ChatDocuments
from app.ui.chat.chat_settings import ChatSettingsActions, ChatSettingsPanel, build_chat_settings
from app.ui.chat.render import ChatRenderer
from app.ui.chat.state import ChatState
from app.ui.chat.view import ChatActions, ChatView, build_chat
from app.ui.documents.document_panel import DocumentPanelActions, build_document_panel
from app.ui.documents.render import DocumentsRenderer
from app.ui.documents.view import DocumentsActions, DocumentsState, build_documents_view
from app.ui.frame.event_handlers import LISTEN, UNCHECKED, UPLOADED, PageEvents, toast
from app.ui.frame.file_export import add_library_routes
from app.ui.frame.gradio_internals import PageBlocks, QueuePace, mount, pressed
from app.ui.frame.option_controls import (
    OptionActions,
    OptionValues,
    build_lookahead_switch,
    build_option_panel,
    saved_with,
    to_values,
)
from app.ui.frame.page_connections import Pages, PageSession, PageValue, add_page_socket
from app.ui.frame.page_stream import ACTIVE_SECONDS, PolledRenderer
from app.ui.frame.services import AppContext, Endpoint, Services
from app.ui.frame.templates import render
from app.ui.frame.theme import asset, head, make_theme
from app.ui.frame.top_bar import Notice, TopBar, build_notice, build_top_bar
from app.ui.frame.uploads import LARGEST_UPLOAD, add_upload_route, check_uploads
from app.ui.live.view import XrayRenderer, XrayState, build_live_panel, build_xray
from app.ui.models.actions import ModelsActions
from app.ui.models.inventory import InventoryCache
from app.ui.models.load_dialog import LoadActions
from app.ui.models.render import ModelsRenderer
from app.ui.models.view import ModelsView
from app.ui.race.render import RaceRenderer
from app.ui.race.view import build_race_view
from app.ui.settings.controls import DecoderControls
from app.ui.settings.data import ImportRenderer
from app.ui.settings.tools import ToolsRenderer
from app.ui.settings.view import build_settings_view
from app.ui.sidebar.render import ChatListRenderer, UndoRenderer
from app.ui.sidebar.view import SidebarActions, build_sidebar
from app.ui.welcome.view import ModelGetter, OfferActions, WelcomeRenderer
from app.values.messages import Options

TABS = {"live": "Live", "settings": "This chat", "xray": "X-ray"}


@dataclass(frozen=True, slots=True)
class Page:
    """The components and values that `connect_page` and `views_of` need. `session` gives the page's script its
    session; a click event of `fill` is the script's request for new values in boxes."""

    chat_state: PageValue[ChatState]
    session: gr.HTML
    fill: gr.HTML
    top: TopBar
    chat: ChatView
    options: tuple[gr.components.Component, ...]
    chat_settings: ChatSettingsPanel
    question: gr.HTML
    models: ModelsView
    is_offline: gr.Checkbox
    documents: PageValue[DocumentsState]
    decoder: DecoderControls
    tools: PageValue[set[str]]
    xray: PageValue[XrayState]

    @property
    def controls(self) -> list[gr.components.Component]:
        """The option controls in the order of `OptionValues`: beside the chat, then in the settings."""
        return [*self.options, *self.decoder.controls]


def build_page(
    services: Services, app_context: AppContext, endpoint: Endpoint, notice: Notice, inventory: InventoryCache,
    events: PageEvents,
) -> Page:  # fmt: skip
    """Build all views inside the current Blocks, with the current settings."""
    settings, new_chat = services.settings, services.new_chat_settings
    chat_state = PageValue(lambda: ChatState(settings=new_chat(), new_settings=new_chat))
    session = _hidden("session", "foresight.connect(element)")
    fill = _hidden("fill", "foresight.fill = trigger")
    top = build_top_bar()
    build_notice(notice, events)
    sidebar = SidebarActions(services)
    with gr.Row(elem_id="main"):
        file = build_sidebar(sidebar, ChatActions(services), chat_state, events)
        chat = build_chat()
        options, chat_settings, xray = _build_side_panel(settings.options, chat_state, events)
    undo = gr.HTML(elem_id="undo", js_on_load=LISTEN)
    events.on(undo.click, sidebar.act, chat_state, file)
    question = gr.HTML(elem_id="chat-question", elem_classes="asks", js_on_load=LISTEN)
    models_actions = ModelsActions(services, inventory)
    events.on(top.to_models.click, models_actions.open)
    models = ModelsView(models_actions, LoadActions(services, inventory), events)
    documents, documents_lists = build_documents_view(DocumentsActions(services), events)
    build_race_view(services, events)
    decoder, tools = build_settings_view(
        services, app_context, endpoint, notice.backup, options, top.to_settings, events
    )
    models.lists += [top.picker, decoder.model]
    is_offline = models.build(settings.library)
    openers = [*documents_lists, chat.thread, chat.live]
    build_document_panel(DocumentPanelActions(services), openers, chat_state, events)
    return Page(
        chat_state, session, fill, top, chat, options, chat_settings, question, models, is_offline,
        documents, decoder, tools, xray,
    )  # fmt: skip


def _hidden(name: str, script: str) -> gr.HTML:
    return gr.HTML(elem_id=name, elem_classes="hidden-output", js_on_load=script)


def _build_side_panel(
    options: Options, chat: PageValue[ChatState], events: PageEvents
) -> tuple[tuple[gr.components.Component, ...], ChatSettingsPanel, PageValue[XrayState]]:
    """Build the panel beside the chat: tabs with the live numbers, the settings of replies, and the X-ray."""
    with gr.Column(elem_id="side", scale=0, min_width=256):
        gr.HTML(render("side_bar.html", tabs=TABS), elem_id="side-tabs", js_on_load=None)
        with gr.Column(elem_id="side-live", elem_classes="side-page"):
            lookahead = build_lookahead_switch(options)
            build_live_panel()
        with gr.Column(elem_id="side-settings", elem_classes="side-page"):
            chat_settings = build_chat_settings()
            panel = build_option_panel(options, lookahead)
        with gr.Column(elem_id="side-xray", elem_classes="side-page"):
            xray = build_xray(chat, lambda state: state.reply, events)
        _hidden("side-ready", "foresight.side()")
    return panel, chat_settings, xray


def connect_page(
    blocks: gr.Blocks, page: Page, services: Services, offers: OfferActions, events: PageEvents
) -> None:
    """Connect the events that concern several views with their actions."""
    _connect_boxes(blocks, page, services, events)
    _connect_chat(page, services, events)
    _connect_options(page, services, events)
    events.on(page.top.status.click, services.engine.cancel_load)
    events.on(blocks.load, offers.look)
    events.on(page.chat.offers.click, offers.click)


def _connect_boxes(blocks: gr.Blocks, page: Page, services: Services, events: PageEvents) -> None:
    built = _chosen(services)
    chat, chat_settings = ChatActions(services), ChatSettingsActions(services)

    def opened(request: gr.Request) -> tuple[Any, ...]:
        """Open a session for the page. Returns the session, and the settings that changed since the app built the
        page. Boxes that show the right values are not changed, because the user may be typing in them."""
        page_session = events.pages.open(request.session_hash or "")
        state = page_session.get(page.chat_state)
        page_session.typed, page_session.left = partial(chat.type, state), partial(chat.turn_to, state)
        chat.open_last(state)
        now = zip(_chosen(services), built, strict=True)
        # Gradio's number box begins with 0 in place of None, so an empty box is emptied here.
        are_right = ((chosen, chosen == then and chosen is not None) for chosen, then in now)
        return page_session.session, *(gr.skip() if is_right else chosen for chosen, is_right in are_right)

    def filled(state: ChatState, event: gr.EventData) -> tuple[Any, ...]:
        """Return the new values of the boxes: for "model" the current temperature, for anything else the chat's
        settings."""
        if pressed(event).do == "model":
            return services.settings.options.sampling.temperature, *(gr.skip(),) * (len(settings) + 1)
        return gr.skip(), *chat_settings.shown(state)

    settings, temperature_at = page.chat_settings.boxes, OptionValues._fields.index("temperature")
    events.on(blocks.load, opened, outputs=[page.session, *page.controls, page.is_offline])
    events.on(page.chat.address.click, chat.open_chat, page.chat_state)
    boxes = [page.controls[temperature_at], *settings, events.faults]
    events.on(page.fill.click, filled, page.chat_state, boxes)


def _chosen(services: Services) -> tuple[Any, ...]:
    """Return the saved values of the option controls, in their order, and of the switch Offline."""
    return (*to_values(services.settings.options), services.settings.library.is_offline)


def _connect_chat(page: Page, services: Services, events: PageEvents) -> None:
    state, controls = page.chat_state, page.controls
    page.chat.connect(page.question, ChatActions(services), state, controls, events)
    attach = page.chat.attach
    events.on(attach.upload, ChatDocuments(services).attach_files, [state, attach], **UPLOADED)
    page.chat_settings.connect(ChatSettingsActions(services), state, controls, events)


def _connect_options(page: Page, services: Services, events: PageEvents) -> None:
    options, boxes = OptionActions(services), [control.elem_id or "" for control in page.controls]
    for name, control in zip(OptionValues._fields, page.controls, strict=True):
        # `input` fires only when the user changes a control; `change` would also fire when a page is loaded.
        # While a slider moves, only its last value counts.
        events.on(
            control.input,  # type: ignore[attr-defined]
            partial(options.choose_options, saved_with(name), boxes),
            page.controls,
            events.faults,
            trigger_mode="always_last",
            **UNCHECKED,
        )


def views_of(
    page: Page, services: Services, inventory: InventoryCache, getter: ModelGetter, notice: Notice
) -> Callable[[PageSession], list[PolledRenderer]]:
    """Return a function that makes the renderers of a page."""
    stored = services.conversations.stores.stored

    def views(session: PageSession) -> list[PolledRenderer]:
        chat_state = session.get(page.chat_state)
        chat, chats = ChatRenderer(services, chat_state), ChatListRenderer(services, chat_state)
        xray = XrayRenderer(session.get(page.xray), lambda: chat_state.reply)
        race = RaceRenderer(services.race, services.engine.status)
        filters, dialog = session.get(page.models.filters), session.get(page.models.dialog)
        models = ModelsRenderer(services, inventory, filters, dialog)
        documents = DocumentsRenderer(services, session.get(page.documents))
        return [
            PolledRenderer(chat.render, chat.is_slow, ACTIVE_SECONDS),
            PolledRenderer(chats.render, chats.is_slow, ACTIVE_SECONDS),
            PolledRenderer(xray.render, lambda: xray.is_open, ACTIVE_SECONDS),
            PolledRenderer(race.render, race.reads_database, ACTIVE_SECONDS),
            PolledRenderer(models.render, seconds=ACTIVE_SECONDS),
            PolledRenderer(documents.render),
            PolledRenderer(WelcomeRenderer(services, inventory, getter).render),
            PolledRenderer(ToolsRenderer(services, session.get(page.tools)).render, lambda: False),
            PolledRenderer(ImportRenderer(lambda: stored.import_progress).render, lambda: False),
            PolledRenderer(UndoRenderer(services.deletions, services.documents).render),
            PolledRenderer(
                lambda: {"notice": notice.html(), "appearance": json.dumps(services.appearance)},
                lambda: False,
            ),
        ]

    return views


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
        """Bring the app's own window to the front; without one, return an address for the second start to open."""
        endpoint.raise_requested.set()
        if endpoint.is_native:
            return fastapi.Response(status_code=204)
        return PlainTextResponse(endpoint.one_time_url())

    mount(
        app, blocks, pace, max_file_size=LARGEST_UPLOAD, favicon_path=str(asset("icon.svg")),
        theme=make_theme(), head=head(services.appearance),
    )  # fmt: skip
    return app


def build_blocks(
    services: Services, app_context: AppContext, endpoint: Endpoint, pages: Pages
) -> tuple[PageBlocks, Callable[[PageSession], Sequence[PolledRenderer]]]:
    """Return the page as Gradio Blocks, and a function that makes the renderers of a page."""
    inventory, notice = InventoryCache(services), Notice(app_context.note, StagedBackup(app_context.data_dir))
    getter = ModelGetter(services, inventory)
    blocks = PageBlocks(
        check_uploads, analytics_enabled=False, title="Foresight", fill_width=True, fill_height=True
    )
    with blocks:
        events = PageEvents(pages, toast, _hidden("faults", "foresight.faults(element)"))
        page = build_page(services, app_context, endpoint, notice, inventory, events)
        connect_page(blocks, page, services, OfferActions(services, inventory, getter), events)
    return blocks, views_of(page, services, inventory, getter, notice)
