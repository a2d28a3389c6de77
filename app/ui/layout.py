"""Where everything stands: the bar at the top, and one view at a time below it. Nothing is joined to anything here.

top      brand  status                       Chat  Models  Documents  Race  Settings
#notice  what must be known first, if anything
#main    sidebar | thread, message box | live numbers, sampling, instructions
#models, #documents, #race, #settings    the other views;   #reading opens beside any, #xray and questions over them
"""

from dataclasses import dataclass

import gradio as gr

from app.conversation.race_prompts import ready_prompts
from app.settings import Settings
from app.ui.chat.area import ChatArea, build_chat_area
from app.ui.chat.manner import MannerArea, build_manner_area
from app.ui.chat.seat import Seat
from app.ui.controls import show_options
from app.ui.documents.reader import ReaderPanel, build_reader
from app.ui.documents.view import DocumentsView, build_documents_view
from app.ui.live.area import LiveArea, XrayArea, build_live_area, build_xray_area
from app.ui.models.inventory import FitTarget
from app.ui.models.view import ModelsView, build_models_view
from app.ui.notice import build_notice
from app.ui.page_events import LISTEN
from app.ui.page_sessions import PageValue
from app.ui.race.view import RaceView, build_race_view
from app.ui.settings.view import SettingsView, build_settings_view
from app.ui.settings_area import SettingsArea, build_settings_area
from app.ui.sidebar.area import SidebarArea, build_sidebar
from app.ui.theme import asset


@dataclass(frozen=True, slots=True)
class Top:
    """The bar at the top: the status, and the ways to the views that look anew when they are opened."""

    status: gr.HTML
    to_models: gr.Button
    to_settings: gr.Button


@dataclass(frozen=True, slots=True)
class Main:
    """The chat's view: the list of chats, the chat, and what stands beside it."""

    sidebar: SidebarArea
    chat: ChatArea
    live: LiveArea
    drawer: SettingsArea
    manner: MannerArea


@dataclass(frozen=True, slots=True)
class Page:
    """The page's components, and where whoever looks at it stands. `refill` is no more than an event: the page's
    script asks by it for boxes to be filled anew. `session` tells the script the page's session."""

    seat: PageValue[Seat]
    session: gr.HTML
    refill: gr.HTML
    top: Top
    notice: gr.HTML
    main: Main
    question: gr.HTML
    models: ModelsView
    documents: DocumentsView
    race: RaceView
    settings: SettingsView
    xray: XrayArea
    reader: ReaderPanel

    @property
    def controls(self) -> list[gr.components.Component]:
        """The option controls in the order of `OptionControls`: beside the chat, then in the settings."""
        return [*self.main.drawer.controls, *self.settings.decoder.controls]


def build_page(settings: Settings, fit_target: FitTarget) -> Page:
    """Build everything inside the current Blocks, as it was chosen last."""
    return Page(
        seat=PageValue(Seat),
        session=gr.HTML(
            elem_id="session", elem_classes="file-place", js_on_load="foresight.connect(element)"
        ),
        refill=gr.HTML(elem_id="refill", elem_classes="file-place", js_on_load="foresight.refill = trigger"),
        top=_top(),
        notice=build_notice(),
        main=_main(settings),
        question=gr.HTML(elem_id="chat-question", elem_classes="asks", js_on_load=LISTEN),
        models=build_models_view(fit_target, settings.library),
        documents=build_documents_view(),
        race=build_race_view(ready_prompts()[0].text, settings.options.decoding),
        settings=build_settings_view(settings.model, show_options(settings.options), settings.theme),
        xray=build_xray_area(),
        reader=build_reader(),
    )


def _top() -> Top:
    with gr.Row(elem_id="top"):
        gr.HTML(_brand(), elem_id="brand", js_on_load=None)
        status = gr.HTML(elem_id="status", js_on_load=None)
        _way("Chat")
        to_models = _way("Models")
        _way("Documents")
        _way("Race")
        to_settings = _way("Settings")
    return Top(status, to_models, to_settings)


def _way(view: str) -> gr.Button:
    return gr.Button(view, elem_id=f"to-{view.lower()}", size="sm", scale=0, min_width=0)


def _brand() -> str:
    sign = "\N{TRIGRAM FOR HEAVEN}"
    chats = f'<button type="button" id="open-chats" aria-label="Chats" aria-expanded="false">{sign}</button>'
    return f"{chats}{asset('icon.svg').read_text(encoding='utf-8')}<span>Foresight</span>"


def _main(settings: Settings) -> Main:
    with gr.Row(elem_id="main"):
        sidebar, chat = build_sidebar(), build_chat_area()
        with gr.Column(elem_id="side", scale=0, min_width=320):
            live = build_live_area()
            drawer = build_settings_area(settings.options)
            manner = build_manner_area()
    return Main(sidebar, chat, live, drawer, manner)
