"""Joins what happens on the page with what it does, view by view."""

from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from app.conversation.race_prompts import ready_prompts
from app.ui.about.view import AboutActions
from app.ui.app_context import AppContext, Endpoint
from app.ui.chat.actions import ChatActions
from app.ui.chat.area import wire_chat
from app.ui.chat.consulting import ConsultingActions
from app.ui.chat.manner import MannerActions, manner_of, wire_manner
from app.ui.chat.reply_watch import ReplyWatch
from app.ui.chat.screen import chat_parts
from app.ui.chat.seat import Seat
from app.ui.chat.watching import Watcher
from app.ui.controls import OptionControls, show_options
from app.ui.documents.reader import ReaderActions
from app.ui.documents.render import DocumentsRenderer
from app.ui.documents.semantic_search import SemanticSearch
from app.ui.documents.view import DocumentsActions
from app.ui.error_handling import try_or_notify
from app.ui.layout import Page
from app.ui.live.actions import XrayActions
from app.ui.live.area import wire_live
from app.ui.models.actions import ModelsActions
from app.ui.models.inventory import InventoryCache
from app.ui.models.render import ModelsRenderer
from app.ui.notice import NoticeActions, wire_notice
from app.ui.options import OptionActions, changed_with
from app.ui.page_events import PageEvents
from app.ui.page_sessions import PageSession
from app.ui.page_stream import ACTIVE_SECONDS, View
from app.ui.race.render import RaceRenderer
from app.ui.race.view import RaceActions
from app.ui.services import Services
from app.ui.settings.view import SettingsActions
from app.ui.sidebar.actions import SidebarActions
from app.ui.sidebar.area import wire_sidebar


def wire_page(
    blocks: gr.Blocks, page: Page, services: Services, inventory: InventoryCache, events: PageEvents
) -> None:
    """Wire all views but the settings."""
    _fill(blocks, page, services, events)
    _wire_main(page, services, events)
    _wire_models(page, services, inventory, events)
    _wire_documents(page, services, events)
    _wire_race(page, services, events)


def wire_home(
    page: Page,
    services: Services,
    app_context: AppContext,
    endpoint: Endpoint,
    notice: NoticeActions,
    events: PageEvents,
) -> None:
    """Wire the settings and what is told about the app."""
    wire_notice(page.notice, notice, events)
    opening, panel = page.top.to_settings, page.main.drawer.controls
    settings = SettingsActions(services, app_context.data_dir, toast, endpoint.quit_requested.set)
    page.settings.connect(settings, panel, opening, events)
    page.settings.about.connect(AboutActions(services, app_context, endpoint), opening, events)


def toast(sentence: str) -> None:
    """Show a sentence in passing."""
    # A toast is drawn as HTML.
    gr.Warning(escape(sentence), duration=8)


def views_of(
    page: Page, services: Services, inventory: InventoryCache, notice: NoticeActions
) -> Callable[[PageSession], list[View[Any]]]:
    """What draws each page."""
    semantic_search = SemanticSearch(services)

    def views(state: PageSession) -> list[View[Any]]:
        chat = Watcher(services, state.get(page.seat))
        race = RaceRenderer(services.race, lambda: services.engine.status().model)
        documents = DocumentsRenderer(services.documents, semantic_search, state.get(page.documents.state))
        return [
            View(chat.look, chat_parts, chat.has_turned, ACTIVE_SECONDS),
            View(race.render, dict, race.reads_database, ACTIVE_SECONDS),
            View(ModelsRenderer(services, inventory).render, dict),
            View(documents.render, dict),
            View(notice.show, lambda html: {"notice": html}, lambda: False),
        ]

    return views


def _fill(blocks: gr.Blocks, page: Page, services: Services, events: PageEvents) -> None:
    built = _chosen(services)

    chatting = ChatActions(services, toast)

    def opened(request: gr.Request) -> tuple[Any, ...]:
        """The page's session, and what was chosen since the page was built, when the app started.

        Boxes that are right already are left alone: somebody may be typing in them by now."""
        state = events.pages.open(request.session_hash or "")
        chatting.open(state.get(page.seat))
        now = zip(_chosen(services), built, strict=True)
        return state.session, *(gr.skip() if chosen == then else chosen for chosen, then in now)

    def refilled(seat: Seat, event: gr.EventData) -> tuple[Any, ...]:
        """Another chat's instructions, or the model that another page has chosen."""
        what, boxes = event._data.get("do"), page.settings.model.inputs
        if what == "model":
            return gr.skip(), *astuple(services.settings.model)
        system = try_or_notify(toast, lambda: manner_of(services, seat).system, gr.skip())
        return system, *(gr.skip() for _ in boxes)

    boxes = [*page.controls, *page.settings.model.inputs, page.models.is_offline]
    events.on(blocks.load, opened, outputs=[page.session, *boxes])
    events.on(page.refill.click, refilled, page.seat, [page.main.manner.system, *page.settings.model.inputs])


def _chosen(services: Services) -> tuple[Any, ...]:
    """The values of all boxes, in their order."""
    model = services.settings.model
    return (*show_options(services.settings.options), *astuple(model), services.settings.library.is_offline)


def _wire_main(page: Page, services: Services, events: PageEvents) -> None:
    main, seat, controls = page.main, page.seat, page.controls
    chatting = ChatActions(services, toast)
    wire_chat(main.chat, page.question, chatting, seat, controls, events)
    wire_sidebar(main.sidebar, SidebarActions(services, toast), chatting, seat, events)
    wire_manner(main.manner, MannerActions(services, toast), seat, controls, events)
    events.on(main.chat.chip.click, ConsultingActions(services, toast).act, seat)
    wire_live(page.xray, XrayActions(ReplyWatch(services)), seat, events)


def _wire_models(page: Page, services: Services, inventory: InventoryCache, events: PageEvents) -> None:
    actions = ModelsActions(services, inventory, toast)
    model, options = page.settings.model, OptionActions(services, actions.ask_or_load)
    events.on(page.top.to_models.click, actions.open)
    page.models.connect(actions, events)
    for loading in (model.load.click, model.name.submit):
        events.on(loading, options.load_model, model.inputs, [model.problem, page.models.dialog])
    for name, control in zip(OptionControls._fields, page.controls, strict=True):
        # `input` is the person's own change; `change` would also fire when a page is filled at load.
        # While a slider moves only its last place counts.
        events.on(
            control.input,  # type: ignore[attr-defined]
            partial(options.choose_options, changed_with(name)),
            page.controls,
            page.main.drawer.problem,
            trigger_mode="always_last",
        )


def _wire_documents(page: Page, services: Services, events: PageEvents) -> None:
    view, chat = page.documents, page.main.chat
    view.connect(DocumentsActions(services.documents, SemanticSearch(services), toast), events)
    openers = [view.results, view.documents, chat.thread, chat.live]
    reader = ReaderActions(services.documents, services.conversations)
    page.reader.connect(reader, openers, page.seat, events)


def _wire_race(page: Page, services: Services, events: PageEvents) -> None:
    actions = RaceActions(
        services.race, ready_prompts(), lambda: services.settings.options, lambda: services.model
    )
    page.race.connect(actions, events)
