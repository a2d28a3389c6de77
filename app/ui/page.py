"""The page's skeleton: joins the areas and wires their events. Every value it shows comes from the desk."""

from dataclasses import astuple, dataclass
from functools import partial
from html import escape
from inspect import signature
from typing import Any

import fastapi
import gradio as gr

from app.ui.chat_area import EXAMPLES, ChatArea, build_chat_area
from app.ui.controls import show_options
from app.ui.desk import Desk
from app.ui.handlers import Handlers
from app.ui.model_area import ModelArea, build_model_area
from app.ui.models.actions import ModelActions
from app.ui.models.area import ModelsArea, build_models_area, wire_models
from app.ui.models.stock import Shelf
from app.ui.settings_area import SettingsArea, build_settings_area
from app.ui.theme import asset, head, make_theme

LARGEST_UPLOAD = "5mb"


@dataclass(frozen=True, slots=True)
class Page:
    """The page's components."""

    status: gr.HTML
    new_chat: gr.Button
    to_models: gr.Button
    panel: gr.HTML
    chat: ChatArea
    settings: SettingsArea
    model: ModelArea
    models: ModelsArea

    @property
    def followers(self) -> list[gr.blocks.Block]:
        """The components that follow the desk, in the order of `handlers.updates`."""
        chat = self.chat
        return [
            chat.chatbot, chat.live, chat.note, self.panel, self.status,
            chat.welcome, chat.send, chat.stop, chat.regenerate,
        ]  # fmt: skip


def build_app(desk: Desk) -> fastapi.FastAPI:
    """The web app with the page at its root; everything that Gradio would open is closed."""
    app = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    gr.mount_gradio_app(
        app,
        build_blocks(desk),
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
        head=head(),
        **_without_run_history(),
    )
    return app


def _without_run_history() -> dict[str, Any]:
    """Newer releases keep a history of every run unless told not to; those from 6.22 on may not know of it yet."""
    knows = "run_history" in signature(gr.mount_gradio_app).parameters
    return {"run_history": False} if knows else {}


def build_blocks(desk: Desk) -> gr.Blocks:
    """The page as Gradio Blocks."""
    shelf = Shelf(desk)
    blocks = gr.Blocks(analytics_enabled=False, title="Foresight", fill_width=True, fill_height=True)
    with blocks:
        page = _build(desk, shelf)
        _wire(blocks, page, desk, ModelActions(desk, shelf, say=_toast))
    return blocks


def _build(desk: Desk, shelf: Shelf) -> Page:
    with gr.Row(elem_id="top"):
        gr.HTML(_brand(), elem_id="brand", js_on_load=None)
        status = gr.HTML(elem_id="status", js_on_load=None)
        gr.Button("Chat", elem_id="to-chat", size="sm", scale=0, min_width=0)
        to_models = gr.Button("Models", elem_id="to-models", size="sm", scale=0, min_width=0)
        new_chat = gr.Button("New chat", elem_id="new-chat", size="sm", scale=0, min_width=0)
        gr.Button("Theme", elem_id="theme-toggle", size="sm", scale=0, min_width=0)
    with gr.Row(elem_id="main"):
        chat = build_chat_area()
        with gr.Column(elem_id="side", scale=0, min_width=320):
            panel = gr.HTML(elem_id="panel", js_on_load=None)
            settings = build_settings_area(desk.settings.options)
            model = build_model_area(desk.settings.model)
    models = build_models_area(shelf.wish, desk.settings.library)
    return Page(status, new_chat, to_models, panel, chat, settings, model, models)


def _brand() -> str:
    return f"{asset('icon.svg').read_text(encoding='utf-8')}<span>Foresight</span>"


def _toast(sentence: str) -> None:
    # A toast is drawn as HTML.
    gr.Warning(escape(sentence), duration=8)


def _wire(blocks: gr.Blocks, page: Page, desk: Desk, actions: ModelActions) -> None:
    handlers = Handlers(desk, _toast, actions.ask_or_load)
    controls = list(page.settings.controls)
    # Private: none is part of an API. No limit: one page's events never wait for another's.
    listen: dict[str, Any] = {
        "show_progress": "hidden",
        "concurrency_limit": None,
        "api_visibility": "private",
    }
    filled = _wire_load(blocks, page, desk, listen)
    filled.then(handlers.follow, outputs=page.followers, **listen)
    filled.then(
        actions.follow, outputs=[page.to_models, *page.models.followers, *page.model.inputs], **listen
    )
    _wire_chat(page, handlers, listen)
    _wire_options(page, handlers, controls, listen)
    page.to_models.click(actions.open, **listen)
    wire_models(page.models, actions, listen)
    for loading in (page.model.load.click, page.model.name.submit):
        loading(
            handlers.load_model,
            page.model.inputs,
            [page.model.problem, page.models.question],
            **listen,
        )


def _wire_load(blocks: gr.Blocks, page: Page, desk: Desk, listen: dict[str, Any]) -> Any:
    built = _chosen(desk)

    def chosen() -> tuple[Any, ...]:
        """What was chosen since the page was built, when the app started.

        Boxes that are right already are left alone: somebody may be typing in them by now."""
        return tuple(
            gr.skip() if now == then else now for now, then in zip(_chosen(desk), built, strict=True)
        )

    boxes = [*page.settings.controls, *page.model.inputs, page.models.is_offline]
    # One after the other: a page that shows its status has its boxes filled, and none is filled late.
    return blocks.load(chosen, outputs=boxes, **listen)


def _chosen(desk: Desk) -> tuple[Any, ...]:
    """The values of all boxes, in their order."""
    model = desk.settings.model
    return (*show_options(desk.settings.options), *astuple(model), desk.settings.library.is_offline)


def _wire_chat(page: Page, handlers: Handlers, listen: dict[str, Any]) -> None:
    chat, controls = page.chat, list(page.settings.controls)
    for sending in (chat.send.click, chat.message.submit):
        sending(handlers.ask, [chat.message, *controls], chat.message, **listen)
    for text, button in zip(EXAMPLES, chat.examples, strict=True):
        button.click(partial(handlers.ask, text), controls, chat.message, **listen)
    chat.regenerate.click(handlers.regenerate, controls, page.settings.seed, **listen)
    chat.stop.click(handlers.stop, **listen)
    page.new_chat.click(handlers.new_chat, **listen)


def _wire_options(
    page: Page, handlers: Handlers, controls: list[gr.components.Component], listen: dict[str, Any]
) -> None:
    for control in controls:
        # `input` is the person's own change; `change` would also fire when a page is filled at load.
        # While a slider moves only its last place counts.
        control.input(  # type: ignore[attr-defined]
            handlers.choose_options, controls, page.settings.problem, trigger_mode="always_last", **listen
        )
