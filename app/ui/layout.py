"""The page: builds the bar at the top and all views, joins them with their events, and says what draws them.

top      brand  status                       Chat  Models  Documents  Race  Settings
#notice  what must be known first, if anything
#main    sidebar | thread, message box | the panel's tabs: settings, live numbers, X-ray
#models, #documents, #race, #settings    the other views;   #reading opens beside any, questions over them

All views are built, and one of them is shown at a time: see assets/ui/foresight.js.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from app.conversation.race.race_setup import ready_prompts
from app.ui.about.view import AboutActions
from app.ui.chat.attaching import Attaching
from app.ui.chat.chat_settings import ChatSettingsActions, ChatSettingsPanel
from app.ui.chat.opening import ChatOpener
from app.ui.chat.render import ChatRenderer
from app.ui.chat.state import ChatState
from app.ui.chat.view import ChatActions, ChatView, build_chat
from app.ui.documents.document_panel import DocumentPanel, DocumentPanelActions, build_document_panel
from app.ui.documents.render import DocumentsRenderer
from app.ui.documents.semantic_search import SemanticSearch
from app.ui.documents.view import DocumentsActions, DocumentsView, build_documents_view
from app.ui.frame.app_context import AppContext, Endpoint
from app.ui.frame.documents_service import ListCollections, listed_collections
from app.ui.frame.option_controls import OptionActions, OptionPanel, OptionValues, saved_with, to_values
from app.ui.frame.page_events import LISTEN, UNCHECKED, UPLOADED, PageEvents, success_toast, toast
from app.ui.frame.page_sessions import PageSession, PageValue
from app.ui.frame.page_stream import ACTIVE_SECONDS, PolledRenderer
from app.ui.frame.services import Services
from app.ui.frame.top_bar import Notice, TopBar, build_notice, build_top_bar
from app.ui.live.view import XrayRenderer, XrayView
from app.ui.models.actions import ModelsActions
from app.ui.models.inventory import InventoryCache
from app.ui.models.load_dialog import LoadActions
from app.ui.models.render import ModelsRenderer
from app.ui.models.view import ModelsView, build_models_view
from app.ui.race.remote_choice import RemoteChoiceRenderer
from app.ui.race.render import RaceRenderer
from app.ui.race.view import RaceActions, RaceView, build_race_view
from app.ui.settings.connect import ConnectActions
from app.ui.settings.data import DataActions
from app.ui.settings.render import ImportRenderer
from app.ui.settings.view import SettingsActions, SettingsView, build_settings_view
from app.ui.side_panel import build_side_panel
from app.ui.sidebar.undo import UndoRenderer
from app.ui.sidebar.view import SidebarActions, SidebarView, build_sidebar
from app.ui.welcome.view import ModelGetter, WelcomeRenderer


@dataclass(frozen=True, slots=True)
class Page:
    """The page's views. `session` tells the page's script its session; `fill` is an event by which the script asks
    for boxes to be filled anew."""

    chat_state: PageValue[ChatState]
    session: gr.HTML
    fill: gr.HTML
    top: TopBar
    sidebar: SidebarView
    undo: gr.HTML
    chat: ChatView
    options: OptionPanel
    chat_settings: ChatSettingsPanel
    question: gr.HTML
    models: ModelsView
    documents: DocumentsView
    race: RaceView
    settings: SettingsView
    xray: XrayView
    document_panel: DocumentPanel

    @property
    def controls(self) -> list[gr.components.Component]:
        """The option controls in the order of `OptionValues`: beside the chat, then in the settings."""
        return [*self.options.controls, *self.settings.decoder.controls]


def build_page(services: Services, notice: Notice, events: PageEvents) -> Page:
    """Build everything inside the current Blocks, as it was chosen last."""
    settings, new_chat = services.settings, services.new_chat_settings
    session = gr.HTML(
        elem_id="session", elem_classes="hidden-output", js_on_load="foresight.connect(element)"
    )
    fill = gr.HTML(elem_id="fill", elem_classes="hidden-output", js_on_load="foresight.fill = trigger")
    top = build_top_bar()
    build_notice(notice, events)
    with gr.Row(elem_id="main"):
        sidebar, chat = build_sidebar(), build_chat()
        side = build_side_panel(settings.options)
    return Page(
        chat_state=PageValue(lambda: ChatState(settings=new_chat(), new_settings=new_chat)),
        session=session,
        fill=fill,
        top=top,
        sidebar=sidebar,
        undo=gr.HTML(elem_id="undo", js_on_load=LISTEN),
        chat=chat,
        options=side.options,
        chat_settings=side.chat_settings,
        question=gr.HTML(elem_id="chat-question", elem_classes="asks", js_on_load=LISTEN),
        models=build_models_view(settings.library),
        documents=build_documents_view(),
        race=build_race_view(ready_prompts()[0].text, settings.options.decoding),
        settings=build_settings_view(settings),
        xray=side.xray,
        document_panel=build_document_panel(),
    )


def connect_page(
    blocks: gr.Blocks, page: Page, services: Services, inventory: InventoryCache, app_context: AppContext,
    endpoint: Endpoint, events: PageEvents,
) -> None:  # fmt: skip
    """Join all events with their actions."""
    _connect_boxes(blocks, page, services, events)
    _connect_chat(page, services, events)
    _connect_models(page, services, inventory, events)
    _connect_documents(page, services, events)
    _connect_race(page, services, events)
    _connect_settings(page, services, app_context, endpoint, events)


def _connect_boxes(blocks: gr.Blocks, page: Page, services: Services, events: PageEvents) -> None:
    built = _chosen(services)
    chat, opener = ChatActions(services, toast), ChatOpener(services, toast)
    chat_settings = ChatSettingsActions(services, toast)

    def opened(request: gr.Request) -> tuple[Any, ...]:
        """Return the page's session, and what was chosen since the page was built, when the app started.

        Boxes that are right already are left alone: somebody may be typing in them by now."""
        page_session = events.pages.open(request.session_hash or "")
        chat.open_last(page_session.get(page.chat_state))
        now = zip(_chosen(services), built, strict=True)
        return page_session.session, *(gr.skip() if chosen == then else chosen for chosen, then in now)

    def filled(state: ChatState, event: gr.EventData) -> tuple[Any, ...]:
        """Return another chat's draft or settings, or the temperature of another model."""
        draft = temperature = gr.skip()
        shown = (gr.skip(),) * len(settings)
        if event._data.get("do") == "model":
            temperature = services.settings.options.sampling.temperature
        elif event._data.get("do") == "draft":
            left, typed = (str(event._data.get(key, "")) for key in ("name", "value"))
            draft = opener.draft(state, left, typed)
        else:
            shown = chat_settings.shown(state)
        return draft, temperature, *shown

    settings = page.chat_settings.boxes
    events.on(blocks.load, opened, outputs=[page.session, *page.controls, page.models.discover.is_offline])
    events.on(page.chat.address.click, opener.open_chat, page.chat_state)
    boxes = [page.chat.message, page.options.temperature, *settings]
    events.on(page.fill.click, filled, page.chat_state, boxes)


def _chosen(services: Services) -> tuple[Any, ...]:
    """The values of all boxes, in their order."""
    return (*to_values(services.settings.options), services.settings.library.is_offline)


def _connect_chat(page: Page, services: Services, events: PageEvents) -> None:
    state, controls, chat = page.chat_state, page.controls, ChatActions(services, toast)
    page.chat.connect(page.question, chat, state, controls, events)
    attaching = Attaching(services, toast)
    events.on(page.chat.attach.upload, attaching.attach_files, [state, page.chat.attach], **UPLOADED)
    page.sidebar.connect(page.undo, SidebarActions(services, toast), chat, state, events)
    page.chat_settings.connect(ChatSettingsActions(services, toast), state, controls, events)
    page.xray.connect(state, events)


def _connect_models(page: Page, services: Services, inventory: InventoryCache, events: PageEvents) -> None:
    actions, options = ModelsActions(services, inventory, toast), OptionActions(services)
    events.on(page.top.to_models.click, actions.open)
    page.models.connect(actions, LoadActions(services, inventory), page.top.picker, events)
    page.settings.chats.connect_sampling(options, page.controls, events)
    beside_chat = page.options.controls
    for name, control in zip(OptionValues._fields, page.controls, strict=True):
        problem = page.options.problem if control in beside_chat else page.settings.decoder.problem
        # `input` is the person's own change; `change` would also fire when a page is filled at load.
        # While a slider moves only its last place counts.
        events.on(
            control.input,  # type: ignore[attr-defined]
            partial(options.choose_options, saved_with(name)),
            page.controls,
            problem,
            trigger_mode="always_last",
            **UNCHECKED,
        )


def _connect_documents(page: Page, services: Services, events: PageEvents) -> None:
    view = page.documents
    collections, semantic_search = _listed_collections(services), SemanticSearch(services)
    view.connect(DocumentsActions(services.documents, collections, semantic_search, toast), events)
    openers = [view.results, view.documents, page.chat.thread, page.chat.live]
    panel = DocumentPanelActions(services.documents, services.conversations)
    page.document_panel.connect(panel, openers, page.chat_state, events)


def _listed_collections(services: Services) -> ListCollections:
    used = services.conversations.stores.stored.used_collections
    return partial(listed_collections, services.documents, used)


def _connect_race(page: Page, services: Services, events: PageEvents) -> None:
    actions = RaceActions(
        services.race,
        ready_prompts(),
        lambda: services.settings.options,
        lambda: services.model,
        services.servers.servers,
    )
    page.race.connect(actions, events)


def _connect_settings(
    page: Page, services: Services, app_context: AppContext, endpoint: Endpoint, events: PageEvents
) -> None:
    opening = page.top.to_settings
    view, data = page.settings, DataActions(services, app_context.data_dir, toast, success_toast)
    view.connect(
        SettingsActions(services, toast, endpoint.quit_requested.set), page.options.controls, opening, events
    )
    view.chats.connect(services, toast, events)
    api = ConnectActions(services, app_context.api, endpoint, toast, success_toast)
    view.api.connect(api, opening, events)
    view.connect_data(data, opening, events)
    view.connect_about(AboutActions(services, app_context, endpoint), opening, events)


def views_of(
    page: Page, services: Services, inventory: InventoryCache, getter: ModelGetter, notice: Notice
) -> Callable[[PageSession], list[PolledRenderer]]:
    """Return what draws each page."""
    collections, semantic_search = _listed_collections(services), SemanticSearch(services)
    stored = services.conversations.stores.stored

    def views(session: PageSession) -> list[PolledRenderer]:
        chat_state = session.get(page.chat_state)
        chat = ChatRenderer(services, chat_state)
        xray = XrayRenderer(session.get(page.xray.state), chat_state)
        race = RaceRenderer(services.race, services.engine.status)
        remote = RemoteChoiceRenderer(services.servers.servers, session.get(page.race.state).remote)
        filters, dialog = session.get(page.models.filters), session.get(page.models.dialog)
        models = ModelsRenderer(services, inventory, filters, dialog)
        state = session.get(page.documents.state)
        documents = DocumentsRenderer(services.documents, collections, semantic_search, state)
        return [
            PolledRenderer(chat.render, chat.is_slow, ACTIVE_SECONDS),
            PolledRenderer(xray.render, lambda: xray.is_open, ACTIVE_SECONDS),
            PolledRenderer(race.render, race.reads_database, ACTIVE_SECONDS),
            PolledRenderer(remote.render, lambda: False),
            PolledRenderer(models.render, seconds=ACTIVE_SECONDS),
            PolledRenderer(documents.render),
            PolledRenderer(WelcomeRenderer(services, inventory, getter).render),
            PolledRenderer(ImportRenderer(lambda: stored.import_progress).render, lambda: False),
            PolledRenderer(UndoRenderer(chat_state, services.documents).render),
            PolledRenderer(
                lambda: {"notice": notice.html(), "appearance": services.settings.theme}, lambda: False
            ),
        ]

    return views
