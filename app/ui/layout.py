"""Builds the page with its top bar and all views, connects the page's events, and makes the web app.

top      brand  model                        Chat  Models  Documents  Race  Settings
#notice  the newest warning or note, and a backup that waits for the next start; usually empty
#main    sidebar | thread, message box | the panel's tabs: live numbers, this chat, X-ray
#models, #documents, #race, #settings    the other views, of which one is shown at a time (assets/ui/foresight.js)
#reading opens a document beside any view;   questions open in dialogs over the page
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import fastapi
import gradio as gr
from starlette.responses import PlainTextResponse

from app.database.restoring import StagedBackup
from app.ui.chat.chat_settings import ChatSettingsActions, ChatSettingsPanel
from app.ui.chat.render import ChatRenderer
from app.ui.chat.state import ChatState
from app.ui.chat.view import ChatActions, ChatView
from app.ui.documents.document_panel import DocumentPanelActions, build_document_panel
from app.ui.documents.render import DocumentsRenderer
from app.ui.documents.view import DocumentsActions, build_documents_view
from app.ui.frame.event_handlers import LISTEN, UNCHECKED, PageEvents, hidden_output, toast
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
from app.ui.frame.page_updates import ACTIVE_SECONDS, PolledRenderer
from app.ui.frame.services import AppContext, Endpoint, Services
from app.ui.frame.templates import render
from app.ui.frame.theme import asset, head, make_theme
from app.ui.frame.top_bar import Notice, TopBar
from app.ui.frame.uploads import LARGEST_UPLOAD, add_upload_route, check_uploads
from app.ui.live.view import XrayRenderer, XrayState, build_live_panel, build_xray
from app.ui.models.actions import ModelsActions
from app.ui.models.inventory import InventoryCache
from app.ui.models.load_dialog import LoadActions
from app.ui.models.render import ModelsRenderer
from app.ui.models.view import ModelsView
from app.ui.race.render import RaceRenderer
from app.ui.race.view import RaceView
from app.ui.settings.controls import SWITCHES
from app.ui.settings.data import ImportRenderer
from app.ui.settings.tools import ToolsRenderer
from app.ui.settings.view import build_settings_view
from app.ui.sidebar.render import ChatListRenderer, UndoRenderer
from app.ui.sidebar.view import SidebarActions, build_sidebar
from app.ui.welcome.view import ModelGetter, OfferActions, WelcomeRenderer

TABS = {"live": "Live", "settings": "This chat", "xray": "X-ray"}


class Page:
    """Builds all views inside the current Blocks, connects their events, and makes each page's renderers."""

    def __init__(
        self, blocks: gr.Blocks, services: Services, app_context: AppContext, endpoint: Endpoint, events: PageEvents
    ) -> None:  # fmt: skip
        self._services, self._events = services, events
        new_chat = services.new_chat_settings
        self._inventory = InventoryCache(services)
        self._getter = ModelGetter(services, self._inventory)
        self._notice = Notice(app_context.note, StagedBackup(app_context.data_dir))
        self._chat_state = state = PageValue(lambda: ChatState(settings=new_chat(), new_settings=new_chat))
        session = hidden_output("session", "foresight.connect(element)")
        fill = hidden_output("fill", "foresight.fill = trigger")
        top = TopBar()
        events.on(gr.HTML(elem_id="notice", js_on_load=LISTEN).click, self._notice.act)
        sidebar, chat_actions = SidebarActions(services), ChatActions(services)
        with gr.Row(elem_id="main"):
            file = build_sidebar(sidebar, chat_actions, state, events)
            chat = ChatView()
            options, chat_settings, self._xray = self._build_side_panel()
        undo = gr.HTML(elem_id="undo", js_on_load=LISTEN)
        events.on(undo.click, sidebar.act, state, file)
        question = gr.HTML(elem_id="chat-question", elem_classes="asks", js_on_load=LISTEN)
        models_actions = ModelsActions(services, self._inventory)
        events.on(top.to_models.click, models_actions.open)
        self._models = ModelsView(models_actions, LoadActions(services, self._inventory), events)
        self._documents, documents_lists = build_documents_view(DocumentsActions(services), events)
        RaceView(services, events)
        decoder, self._tools, others = build_settings_view(
            services, app_context, endpoint, self._notice.backup, options, top.to_settings, events
        )
        self._models.lists += [top.picker, decoder.model]
        is_offline = self._models.build(services.settings.library)
        openers = [*documents_lists, chat.thread, chat.live]
        build_document_panel(DocumentPanelActions(services), openers, state, events)
        # The order is that of `OptionValues`: controls beside the chat, then controls in the settings.
        controls = [*options, *decoder.controls]
        chat.connect(question, chat_actions, state, controls, events)
        chat_settings.connect(ChatSettingsActions(services), state, controls, events)
        self._connect_options(controls)
        self._connect_new_page(blocks, chat_actions, [session, *controls, is_offline, *others])
        temperature = controls[OptionValues._fields.index("temperature")]
        events.on(fill.click, self._filled, state, [temperature, *chat_settings.boxes, events.faults])
        events.on(top.status.click, services.engine.cancel_load)
        offers = OfferActions(services, self._inventory, self._getter)
        events.on(blocks.load, offers.look)
        events.on(chat.offers.click, offers.click)

    def _build_side_panel(
        self,
    ) -> tuple[tuple[gr.components.Component, ...], ChatSettingsPanel, PageValue[XrayState]]:
        options = self._services.settings.options
        with gr.Column(elem_id="side", scale=0, min_width=256):
            gr.HTML(render("side_bar.html", tabs=TABS), elem_id="side-tabs", js_on_load=None)
            with gr.Column(elem_id="side-live", elem_classes="side-page"):
                lookahead = build_lookahead_switch(options)
                build_live_panel()
            with gr.Column(elem_id="side-settings", elem_classes="side-page"):
                chat_settings = ChatSettingsPanel()
                panel = build_option_panel(options, lookahead)
            with gr.Column(elem_id="side-xray", elem_classes="side-page"):
                xray = build_xray(self._chat_state, lambda state: state.reply, self._events)
            hidden_output("side-ready", "foresight.side()")
        return panel, chat_settings, xray

    def _connect_options(self, controls: Sequence[gr.components.Component]) -> None:
        options, boxes = OptionActions(self._services), [control.elem_id or "" for control in controls]
        for name, control in zip(OptionValues._fields, controls, strict=True):
            # `input` fires only when the user changes a control; `change` would also fire when a page is loaded.
            # While a slider moves, only its last value counts.
            self._events.on(
                control.input,  # type: ignore[attr-defined]
                partial(options.choose_options, saved_with(name), boxes),
                controls,
                self._events.faults,
                trigger_mode="always_last",
                **UNCHECKED,
            )

    def _connect_new_page(self, blocks: gr.Blocks, chat: ChatActions, outputs: list[Any]) -> None:
        built = self._chosen()

        def opened(request: gr.Request) -> tuple[Any, ...]:
            """Open a session for the page. Returns the session, and the settings that changed since the app built
            the page. Boxes that show the right values are not changed, because the user may be typing in them."""
            page_session = self._events.pages.open(request.session_hash or "")
            state = page_session.get(self._chat_state)
            page_session.typed, page_session.left = partial(chat.type, state), partial(chat.turn_to, state)
            chat.open_last(state)
            now = zip(self._chosen(), built, strict=True)
            # Gradio's number box begins with 0 in place of None, so an empty box is emptied here.
            are_right = ((chosen, chosen == then and chosen is not None) for chosen, then in now)
            return page_session.session, *(
                gr.skip() if is_right else chosen for chosen, is_right in are_right
            )

        self._events.on(blocks.load, opened, outputs=outputs)

    def _chosen(self) -> tuple[Any, ...]:
        """Return the saved values of the option controls, in their order, of the switch Offline, of the settings of
        all chats, and of the box for web apps."""
        settings = self._services.settings
        defaults = (settings.chats.system, *(getattr(settings.chats, name) for name, *_ in SWITCHES))
        origins = " ".join(settings.api_origins)
        return (*to_values(settings.options), settings.library.is_offline, *defaults, origins)

    def _filled(self, state: ChatState, event: gr.EventData) -> tuple[Any, ...]:
        """Return the values of the boxes that the page's script requests: for "model" the current temperature, for
        anything else the chat's settings."""
        shown = ChatSettingsActions(self._services).shown(state)
        if pressed(event).do == "model":
            return self._services.settings.options.sampling.temperature, *(gr.skip() for _ in shown)
        return gr.skip(), *shown

    def views(self, session: PageSession) -> list[PolledRenderer]:
        services, chat_state = self._services, session.get(self._chat_state)
        chat, chats = ChatRenderer(services, chat_state), ChatListRenderer(services, chat_state)
        xray = XrayRenderer(session.get(self._xray), lambda: chat_state.reply)
        race = RaceRenderer(services.race, services.engine.status)
        filters, dialog = session.get(self._models.filters), session.get(self._models.dialog)
        models = ModelsRenderer(services, self._inventory, filters, dialog)
        stored, notice = services.conversations.stores.stored, self._notice
        return [
            PolledRenderer(chat.render, chat.is_slow, ACTIVE_SECONDS),
            PolledRenderer(chats.render, chats.is_slow, ACTIVE_SECONDS),
            PolledRenderer(xray.render, lambda: xray.is_open, ACTIVE_SECONDS),
            PolledRenderer(race.render, race.reads_database, ACTIVE_SECONDS),
            PolledRenderer(models.render, seconds=ACTIVE_SECONDS),
            PolledRenderer(DocumentsRenderer(services, session.get(self._documents)).render),
            PolledRenderer(WelcomeRenderer(services, self._inventory, self._getter).render),
            PolledRenderer(ToolsRenderer(services, session.get(self._tools)).render, lambda: False),
            PolledRenderer(ImportRenderer(lambda: stored.import_progress).render, lambda: False),
            PolledRenderer(UndoRenderer(services.deletions, services.documents).render),
            PolledRenderer(
                lambda: {"notice": notice.html(), "appearance": json.dumps(services.appearance)},
                lambda: False,
            ),
        ]


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
    blocks = PageBlocks(
        check_uploads, analytics_enabled=False, title="Foresight", fill_width=True, fill_height=True
    )
    with blocks:
        events = PageEvents(pages, toast, hidden_output("faults", "foresight.faults(element)"))
        page = Page(blocks, services, app_context, endpoint, events)
    return blocks, page.views
