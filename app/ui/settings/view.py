"""The Settings view. Links on the left choose which section is shown (assets/ui/settings.js)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import gradio as gr

from app.database.restoring import StagedBackup
from app.settings import Settings, TextSize, Theme
from app.ui.frame.event_handlers import LISTEN, UNCHECKED, Actions, Notify, PageEvents, toast
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.option_controls import OptionValues, to_values
from app.ui.frame.page_connections import PageValue
from app.ui.frame.services import AppContext, Endpoint, Services
from app.ui.frame.templates import render_macro
from app.ui.settings.about import AboutActions, build_about, build_privacy
from app.ui.settings.connect import build_connect
from app.ui.settings.controls import DecoderControls, build_chat_defaults, cost_html
from app.ui.settings.data import build_data
from app.ui.settings.tools import build_tools
from app.values.messages import PRESETS, Decoding, Options
from app.values.model import Precision, RowPrice

SECTIONS = {
    "general": "General",
    "advanced": "Advanced",
    "data": "Data and privacy",
    "connect": "Connect",
    "tools": "Tools",
    "about": "About",
}
"""The titles of the sections, by the last part of their address, such as #/settings/connect."""
THEMES: dict[Theme, str] = {"system": "System", "light": "Light", "dark": "Dark"}
TEXT_SIZES: dict[TextSize, str] = {"90": "Small", "100": "Normal", "115": "Large", "130": "Very large"}


class SettingsActions(Actions):
    def __init__(self, services: Services, notify: Notify = toast) -> None:
        super().__init__(services, notify)
        self._prices: dict[tuple[str, str], RowPrice | None] = {}

    def cost(self, lookahead: bool, decoder: Any, *sizes: Any) -> Any:
        """Return the cost of the decoder in the controls; no change while their values are invalid."""
        try:
            rows, window, ngram, guesses = (int(size or 0) for size in sizes)
            decoding = Decoding(decoder if lookahead else "plain", window, ngram, guesses, rows)
        except ValueError:
            return gr.skip()
        model = self._services.engine.status().model
        return cost_html(decoding, self._price(), model.name if model else "")

    def preset(self, event: gr.EventData) -> tuple[Any, ...]:
        """Choose and save recommended sizes, and the decoder that uses them."""
        name: Any = pressed(event).name
        if name not in PRESETS:
            return (gr.skip(),) * 4
        window, ngram, guesses = PRESETS[name]

        def chosen(options: Options) -> Options:
            decoding = options.decoding
            sized = replace(decoding, decoder="lookahead", window=window, ngram=ngram, guesses=guesses)
            return replace(options, decoding=sized)

        self._try(lambda: self._services.change_options(chosen))
        return "lookahead", window, ngram, guesses

    def choose_appearance(self, event: gr.EventData) -> None:
        """Save the theme or the text size. The page has already applied it."""
        chosen, now = pressed(event), self._services.settings
        theme: Any = chosen.name if chosen.name in THEMES else now.theme
        text_size: Any = chosen.name if chosen.name in TEXT_SIZES else now.text_size
        self._try(lambda: self._services.choose(theme=theme, text_size=text_size))

    def restore(self) -> tuple[Any, ...]:
        """Restore the default appearance and options, except thinking. Returns the earlier settings, for `undo`."""
        before = self._services.settings
        self._try(self._services.restore_options)
        self._try(lambda: self._services.choose(theme="system", text_size="100"))
        return before, render_macro("settings.html", "restored"), *to_values(self._services.settings.options)

    def undo(self, before: Any) -> tuple[Any, ...]:
        """Undo `restore`. A temperature that the user had not chosen still follows the model."""
        if before is None:
            return (gr.skip(),) * (2 + len(OptionValues._fields))

        def undone(now: Settings) -> Settings:
            options = replace(before.options, thinking=now.options.thinking)
            names = ("is_temperature_chosen", "theme", "text_size")
            return replace(now, options=options, **{name: getattr(before, name) for name in names})

        self._try(lambda: self._services.change(undone))
        self._try(lambda: self._services.follow_model(self._services.settings.local_model.name))
        return None, "", *to_values(self._services.settings.options)

    def _price(self) -> RowPrice | None:
        """Return the memory of a row, cached by model; None if no local model is loaded."""
        model, name = self._services.engine.status().model, self._services.settings.model.name
        if model is None or model.server:
            return None
        precision = model.dtype if model.dtype in get_args(Precision) else "float32"
        key = (name, precision)
        if key not in self._prices:
            self._prices[key] = self._try(lambda: self._services.models.row_price(*key))  # type: ignore[arg-type]
        return self._prices[key]


def build_settings_view(
    services: Services,
    app_context: AppContext,
    endpoint: Endpoint,
    backup: StagedBackup,
    beside_chat: Sequence[gr.components.Component],
    opening: gr.Button,
    events: PageEvents,
) -> tuple[DecoderControls, PageValue[set[str]], list[gr.components.Component]]:
    """Build the view inside the current Blocks. The button `opening` leads to it; `beside_chat` are the option
    controls beside the chat. Returns the decoder's controls, the names of the tool servers whose logs a page shows,
    and the other boxes that show settings."""
    actions = SettingsActions(services)
    about = AboutActions(services, app_context, endpoint)
    with gr.Row(elem_id="settings"):
        links = render_macro("settings.html", "navigation", sections=SECTIONS)
        gr.HTML(links, elem_id="settings-nav", js_on_load="foresight.settingsNav(element)")
        with gr.Column(elem_id="choices", scale=1):
            with _section("general"):
                with gr.Column(elem_classes="part"):
                    choices = {"theme": ("Appearance", THEMES), "text-size": ("Text size", TEXT_SIZES)}
                    appearance = services.appearance  # assets/ui/settings.js applies a choice at once
                    buttons = render_macro("settings.html", "appearance", choices=choices, chosen=appearance)
                    looks = gr.HTML(buttons, elem_id="looks", js_on_load=LISTEN)
                    # Choices are saved one after the other, so that the last of several quick ones is saved last.
                    events.on(
                        looks.click, actions.choose_appearance, trigger_mode="multiple", concurrency_limit=1
                    )
                defaults = build_chat_defaults(services, events)
                restore, restored = _build_general(endpoint, events)
            with _section("advanced"):
                decoder = DecoderControls(to_values(services.settings.options))
            with _section("data"):
                build_data(services, app_context.data_dir, backup, opening, events)
                contacts = build_privacy(about, events)
            with _section("connect"):
                origins = build_connect(services, app_context.api, endpoint, opening, events)
            with _section("tools"):
                tools = build_tools(services, events)
            with _section("about"):
                build_about(about, contacts, opening, events)
    controls = [*beside_chat, *decoder.controls]
    _connect_decoder(actions, beside_chat[0], decoder, opening, events)
    before: PageValue[Any] = PageValue(lambda: None)  # the settings that Undo restores
    events.on(restore.click, actions.restore, outputs=[before, restored, *controls])
    events.on(restored.click, actions.undo, before, [before, restored, *controls])
    return decoder, tools, [*defaults, origins]


def _section(name: str) -> gr.Column:
    return gr.Column(elem_id=f"settings-{name}", elem_classes="section")


def _build_general(endpoint: Endpoint, events: PageEvents) -> tuple[gr.Button, gr.HTML]:
    """Build the buttons that restore the defaults and quit. Returns the first button and the line below it."""
    with gr.Column(elem_classes="part"):
        gr.HTML(
            "<h3>Defaults</h3><p class='hint'>Resets sampling, decoder and appearance. The model is kept.</p>",
            js_on_load=None,
        )
        restore = gr.Button("Restore defaults", elem_id="restore", size="sm", scale=0)
        restored = gr.HTML(elem_id="restored", js_on_load=LISTEN)
    with gr.Column(elem_classes="part"):
        gr.HTML(
            "<h3>Quit</h3><p class='hint'>Ends Foresight, also for pages in other windows. Chats are saved.</p>",
            js_on_load=None,
        )
        quit_app = gr.Button("Quit Foresight", elem_id="quit", size="sm", scale=0)
        events.on(quit_app.click, endpoint.quit_requested.set)
    return restore, restored


def _connect_decoder(
    actions: SettingsActions, lookahead: gr.components.Component, decoder: DecoderControls, opening: gr.Button,
    events: PageEvents,
) -> None:  # fmt: skip
    box, *sizes, _same_text = decoder.controls
    _rows, *recommended = sizes
    given = [lookahead, box, *sizes]
    # `change` instead of `input`, so that the cost is also correct after a page load, a preset and restored
    # defaults.
    changes = [control.change for control in given]  # type: ignore[attr-defined]
    events.on(
        partial(gr.on, changes), actions.cost, given, decoder.cost, trigger_mode="always_last", **UNCHECKED
    )
    events.on(opening.click, actions.cost, given, decoder.cost, **UNCHECKED)
    events.on(decoder.presets.click, actions.preset, outputs=[box, *recommended])
