"""The settings' view: what is chosen once on the left, what the app is and its self-check on the right."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from app.messages import ModelChoice
from app.settings import Theme
from app.ui.about.area import AboutArea, build_about_area
from app.ui.model_controls import ModelControls, build_model_controls
from app.ui.option_controls import OptionValues
from app.ui.page_events import LISTEN, PageEvents
from app.ui.page_sessions import PageValue
from app.ui.settings.actions import SettingsActions
from app.ui.settings.decoder_part import DecoderPart, build_decoder_part
from app.ui.settings.theme_html import theme_html


@dataclass(frozen=True, slots=True)
class SettingsView:
    """The view's components."""

    model: ModelControls
    decoder: DecoderPart
    theme: gr.HTML
    folder: gr.HTML
    before: PageValue[Any]
    restore: gr.Button
    restored: gr.HTML
    quit: gr.Button
    about: AboutArea


def build_settings_view(model: ModelChoice, options: OptionValues, theme: Theme) -> SettingsView:
    """Build the view inside the current Blocks."""
    with gr.Row(elem_id="settings"):
        with gr.Column(elem_id="choices", scale=1):
            model_area = build_model_controls(model)
            decoder = build_decoder_part(options)
            with gr.Column(elem_classes="part"):
                looks = gr.HTML(theme_html(theme), elem_id="theme", js_on_load=LISTEN)
            folder = _folder()
            before, restore, restored, leave = _endings()
        with gr.Column(elem_id="about", scale=0, min_width=320):
            about = build_about_area()
    return SettingsView(model_area, decoder, looks, folder, before, restore, restored, leave, about)


def _folder() -> gr.HTML:
    with gr.Column(elem_id="data", elem_classes="part"):
        gr.HTML("<h3>Data folder</h3>", js_on_load=None)
        return gr.HTML(elem_id="data-folder", js_on_load=LISTEN)


def _endings() -> tuple[PageValue[Any], gr.Button, gr.HTML, gr.Button]:
    before: PageValue[Any] = PageValue(lambda: None)
    with gr.Row(elem_id="endings", elem_classes="part"):
        restore = gr.Button("Restore defaults", elem_id="restore", size="sm", scale=0)
        restored = gr.HTML(elem_id="restored", js_on_load=LISTEN)
        leave = gr.Button("Quit Foresight", elem_id="quit", size="sm", scale=0)
    return before, restore, restored, leave


def wire_settings(
    view: SettingsView,
    drawer: tuple[gr.components.Component, ...],
    actions: SettingsActions,
    events: PageEvents,
) -> None:
    """Join the view's events with what they do; `drawer` has the controls that stand beside the chat."""
    part = view.decoder
    # `change`, so that the cost follows what fills the controls: a page's load, a preset, the defaults.
    changes = [control.change for control in (drawer[0], *part.sizes)]  # type: ignore[attr-defined]
    cost_of = [drawer[0], *part.sizes]
    events.on(partial(gr.on, changes), actions.cost, cost_of, part.cost, trigger_mode="always_last")
    sizes = [part.decoder, part.window, part.ngram, part.guesses]
    events.on(part.presets.click, actions.preset, outputs=sizes)
    events.on(view.theme.click, actions.choose_theme)
    events.on(view.folder.click, actions.in_folder, outputs=view.folder)
    back = [view.before, view.restored, view.theme, *drawer, *part.controls]
    events.on(view.restore.click, actions.restore, outputs=back)
    events.on(view.restored.click, actions.undo, view.before, back)
    events.on(view.quit.click, actions.quit)


def wire_opening(
    way: gr.Button,
    view: SettingsView,
    drawer: tuple[gr.components.Component, ...],
    actions: SettingsActions,
    events: PageEvents,
) -> None:
    """Have `way`, the button that leads here, draw what may have changed since."""
    events.on(way.click, actions.open, outputs=[view.theme, view.folder])
    events.on(way.click, actions.cost, [drawer[0], *view.decoder.sizes], view.decoder.cost)
