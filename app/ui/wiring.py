"""Joins what happens on the page with what it does, view by view."""

from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from app.conversation.race_prompts import ready_prompts
from app.ui.about.actions import AboutActions
from app.ui.about.area import wire_about
from app.ui.about.surroundings import Door, Surroundings
from app.ui.chat.actions import ChatActions
from app.ui.chat.area import wire_chat
from app.ui.chat.consulting import ConsultingActions
from app.ui.chat.manner import MannerActions, wire_manner
from app.ui.chat.reply_watch import ReplyWatch
from app.ui.controls import OptionControls, show_options
from app.ui.desk import Desk
from app.ui.documents.actions import DocumentActions
from app.ui.documents.area import wire_documents
from app.ui.documents.meaning import MeaningModel
from app.ui.documents.reading_actions import ReadingActions
from app.ui.documents.reading_area import wire_reading
from app.ui.documents.seat import DocumentsSeat
from app.ui.layout import Page
from app.ui.live.actions import XrayActions
from app.ui.live.area import wire_live
from app.ui.models.actions import ModelActions
from app.ui.models.area import wire_models
from app.ui.models.stock import Shelf
from app.ui.notice import NoticeActions, wire_notice
from app.ui.options import OptionActions, changed_with
from app.ui.race.actions import Chosen, RaceActions, RaceSeat
from app.ui.race.area import wire_race
from app.ui.settings.actions import SettingsActions
from app.ui.settings.area import wire_opening, wire_settings
from app.ui.sidebar.actions import SidebarActions
from app.ui.sidebar.area import wire_sidebar

LISTENING: dict[str, Any] = {
    "show_progress": "hidden",
    "concurrency_limit": None,  # one page's events never wait for another's
    "api_visibility": "private",  # none is part of an API
}


def wire_page(blocks: gr.Blocks, page: Page, desk: Desk, shelf: Shelf) -> None:
    """Wire all views but the settings."""
    models = ModelActions(desk, shelf, say=toast)
    filled = _fill(blocks, page, desk)
    _wire_main(page, desk, filled.then)
    _wire_models(page, OptionActions(desk, models.ask_or_load), models, filled.then)
    _wire_documents(page, desk, filled.then)
    _wire_race(page, desk, filled.then)


def wire_home(blocks: gr.Blocks, page: Page, desk: Desk, around: Surroundings, door: Door) -> None:
    """Wire the settings and what is told about the app."""
    wire_notice(blocks, page.notice, NoticeActions(around.note), LISTENING)
    view, about = page.settings, AboutActions(desk, around, door)
    actions = SettingsActions(desk, around.data_dir, toast, door.leaving.set)
    drawer, to_settings = page.main.drawer.controls, page.top.to_settings
    wire_settings(view, drawer, actions, LISTENING)
    wire_about(view.about, about, LISTENING)
    wire_opening(to_settings, view, drawer, actions, LISTENING)
    to_settings.click(about.open, outputs=view.about.facts, **LISTENING)


def toast(sentence: str) -> None:
    """Show a sentence in passing."""
    # A toast is drawn as HTML.
    gr.Warning(escape(sentence), duration=8)


Then = Callable[..., Any]
"""Begins something once a page has its boxes filled, so that none is filled late."""


def _fill(blocks: gr.Blocks, page: Page, desk: Desk) -> Any:
    built = _chosen(desk)

    def chosen() -> tuple[Any, ...]:
        """What was chosen since the page was built, when the app started.

        Boxes that are right already are left alone: somebody may be typing in them by now."""
        return tuple(
            gr.skip() if now == then else now for now, then in zip(_chosen(desk), built, strict=True)
        )

    boxes = [*page.controls, *page.settings.model.inputs, page.models.is_offline]
    return blocks.load(chosen, outputs=boxes, **LISTENING)


def _chosen(desk: Desk) -> tuple[Any, ...]:
    """The values of all boxes, in their order."""
    model = desk.settings.model
    return (*show_options(desk.settings.options), *astuple(model), desk.settings.library.is_offline)


def _wire_main(page: Page, desk: Desk, then: Then) -> None:
    main, seat, controls = page.main, page.seat, page.controls
    chatting = ChatActions(desk, toast)
    then(chatting.follow, seat, page.followers, **LISTENING)
    then(chatting.stream, seat, page.lively, **LISTENING)
    wire_chat(main.chat, page.question, chatting, seat, controls, LISTENING)
    wire_sidebar(main.sidebar, SidebarActions(desk, toast), chatting, seat, LISTENING)
    wire_manner(main.manner, MannerActions(desk, toast), seat, controls, LISTENING)
    main.chat.chip.click(ConsultingActions(desk, toast).act, seat, **LISTENING)
    wire_live(page.xray, XrayActions(ReplyWatch(desk)), seat, LISTENING)


def _wire_models(page: Page, options: OptionActions, actions: ModelActions, then: Then) -> None:
    model, way = page.settings.model, page.top.to_models
    then(actions.follow, outputs=[way, *page.models.followers, *model.inputs], **LISTENING)
    way.click(actions.open, **LISTENING)
    wire_models(page.models, actions, LISTENING)
    for loading in (model.load.click, model.name.submit):
        loading(options.load_model, model.inputs, [model.problem, page.models.question], **LISTENING)
    for name, control in zip(OptionControls._fields, page.controls, strict=True):
        # `input` is the person's own change; `change` would also fire when a page is filled at load.
        # While a slider moves only its last place counts.
        control.input(  # type: ignore[attr-defined]
            partial(options.choose_options, changed_with(name)),
            page.controls,
            page.main.drawer.problem,
            trigger_mode="always_last",
            **LISTENING,
        )


def _wire_documents(page: Page, desk: Desk, then: Then) -> None:
    actions = DocumentActions(desk.documents, MeaningModel(desk), toast)
    area, seat = page.documents, gr.State(DocumentsSeat())
    then(actions.follow, seat, area.followers, **LISTENING)
    wire_documents(area, actions, seat, LISTENING)
    reading, chat = ReadingActions(desk.documents, desk.conversations), page.main.chat
    lists = [area.found, area.papers, chat.thread, chat.live]
    wire_reading(page.reading, reading, lists, page.seat, LISTENING)


def _wire_race(page: Page, desk: Desk, then: Then) -> None:
    chosen = Chosen(lambda: desk.settings.options, lambda: desk.model, desk.engine.status)
    actions = RaceActions(desk.race, ready_prompts(), chosen, toast)
    seat = gr.State(RaceSeat())
    then(actions.follow, seat, page.race.followers, **LISTENING)
    then(actions.stream, seat, [page.race.status, page.race.board], **LISTENING)
    wire_race(page.race, actions, seat, LISTENING)
