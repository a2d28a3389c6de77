"""The Settings view: sections, of which links on the left show one at a time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import gradio as gr

from app.settings import Settings, Theme
from app.ui.about.view import (
    AboutActions,
    AboutControls,
    PrivacyControls,
    build_about_controls,
    build_privacy_controls,
)
from app.ui.frame.error_handling import Notify, try_or_notify
from app.ui.frame.option_controls import OptionValues, to_values
from app.ui.frame.page_events import LISTEN, UNCHECKED, PageEvents
from app.ui.frame.page_sessions import PageValue
from app.ui.frame.services import Services
from app.ui.settings.chat_controls import ChatControls, build_chat_controls
from app.ui.settings.connect import ConnectControls, build_connect_controls
from app.ui.settings.data import DataActions, DataControls, build_data_controls
from app.ui.settings.decoder_controls import DecoderControls, build_decoder_controls
from app.ui.settings.navigation import build_navigation, section
from app.ui.settings.render import cost_html, restored_html, theme_html
from app.values.messages import PRESETS, Decoding, Options
from app.values.model import Precision, RowPrice


class SettingsActions:
    """The view's event handlers."""

    def __init__(self, services: Services, notify: Notify, quit_app: Callable[[], None]) -> None:
        self._services = services
        self._notify = notify
        self._quit = quit_app
        self._prices: dict[tuple[str, str], RowPrice | None] = {}

    def cost(self, lookahead: bool, decoder: Any, *sizes: Any) -> Any:
        """The cost of the decoder in the controls. Nothing changes while their values are invalid."""
        try:
            rows, window, ngram, guesses = (int(size or 0) for size in sizes)
            decoding = Decoding(decoder if lookahead else "plain", window, ngram, guesses, rows)
        except ValueError:
            return gr.skip()
        model = self._services.engine.status().model
        return cost_html(decoding, self._price(), model.name if model else "")

    def open_sizes(self, decoder: str) -> Any:
        """Show the sizes of a decoder that has some."""
        return gr.update(open=decoder != "auto")

    def preset(self, event: gr.EventData) -> tuple[Any, ...]:
        """Choose recommended sizes, and the decoder that uses them."""
        name = event._data.get("name")
        if name not in PRESETS:
            return (gr.skip(),) * 4
        window, ngram, guesses = PRESETS[name]

        def chosen(options: Options) -> Options:
            decoding = options.decoding
            sized = replace(decoding, decoder="lookahead", window=window, ngram=ngram, guesses=guesses)
            return replace(options, decoding=sized)

        self._try(lambda: self._services.change_options(chosen))
        return "lookahead", window, ngram, guesses

    def choose_theme(self, event: gr.EventData) -> None:
        """Save the appearance. The page itself has changed already."""
        theme = event._data.get("name")
        if theme in get_args(Theme):
            self._try(lambda: self._services.choose_theme(theme))

    def restore(self) -> tuple[Any, ...]:
        """Restore the default options and appearance. The model stays. Keeps the settings for `undo`."""
        before = self._services.settings
        self._try(self._services.restore_options)
        self._try(lambda: self._services.choose_theme("system"))
        return before, restored_html(), *to_values(self._services.settings.options)

    def undo(self, before: Any) -> tuple[Any, ...]:
        """Undo `restore`."""
        if before is None:
            return (gr.skip(),) * (2 + len(OptionValues._fields))
        self._try(lambda: self._services.choose_options(before.options))
        self._try(lambda: self._services.choose_theme(before.theme))
        return None, "", *to_values(before.options)

    def quit(self) -> None:
        """End the app."""
        self._quit()

    def _price(self) -> RowPrice | None:
        """The memory that a row takes with the loaded model. Each model is asked once."""
        model, name = self._services.engine.status().model, self._services.settings.model.name
        if model is None or model.server:
            return None
        precision = model.dtype if model.dtype in get_args(Precision) else "float32"
        key = (name, precision)
        if key not in self._prices:
            self._prices[key] = self._try(lambda: self._services.models.row_price(*key))  # type: ignore[arg-type]
        return self._prices[key]

    def _try(self, action: Callable[[], Any]) -> Any:
        """The action's result, or None if it failed, after the person was told why."""
        return try_or_notify(self._notify, action, None)


@dataclass(frozen=True, slots=True)
class SettingsView:
    """The view's components; `before` are the settings that Undo brings back."""

    restore: gr.Button
    restored: gr.HTML
    quit: gr.Button
    theme: gr.HTML
    chats: ChatControls
    decoder: DecoderControls
    data: DataControls
    api: ConnectControls
    privacy: PrivacyControls
    about: AboutControls
    before: PageValue[Any]

    def connect(
        self,
        actions: SettingsActions,
        panel: tuple[gr.components.Component, ...],
        opening: gr.Button,
        events: PageEvents,
    ) -> None:
        """Join events with actions. `panel` has the controls beside the chat; `opening` leads to this view."""
        decoder = self.decoder
        sizes = [panel[0], *decoder.sizes]
        # `change`, so that the cost is also right after a page load, a preset and restored defaults.
        changes = [control.change for control in sizes]  # type: ignore[attr-defined]
        events.on(
            partial(gr.on, changes),
            actions.cost,
            sizes,
            decoder.cost,
            trigger_mode="always_last",
            **UNCHECKED,
        )
        events.on(decoder.decoder.input, actions.open_sizes, decoder.decoder, decoder.advanced)
        chosen = [decoder.decoder, decoder.window, decoder.ngram, decoder.guesses]
        events.on(decoder.presets.click, actions.preset, outputs=chosen)
        # One after the other: the newest of quick choices is to be the last that is saved.
        events.on(self.theme.click, actions.choose_theme, trigger_mode="multiple", concurrency_limit=1)
        restored = [self.before, self.restored, *panel, *decoder.controls]
        events.on(self.restore.click, actions.restore, outputs=restored)
        events.on(self.restored.click, actions.undo, self.before, restored)
        events.on(self.quit.click, actions.quit)
        events.on(opening.click, actions.cost, sizes, decoder.cost, **UNCHECKED)

    def connect_data(self, actions: DataActions, opening: gr.Button, events: PageEvents) -> None:
        """Join the events of the data folder with their actions."""
        self.data.connect(actions, events)
        events.on(opening.click, actions.folder, outputs=self.data.folder)

    def connect_about(self, actions: AboutActions, opening: gr.Button, events: PageEvents) -> None:
        """Join the events of Privacy and About with their actions."""
        events.on(self.privacy.check.click, actions.check, outputs=self.privacy.checks)
        events.on(opening.click, actions.open, outputs=[self.privacy.contacts, self.about.facts])


def build_settings_view(settings: Settings) -> SettingsView:
    """Create the components inside the current Blocks."""
    with gr.Row(elem_id="settings"):
        build_navigation()
        with gr.Column(elem_id="choices", scale=1):
            with section("general"):
                restore, restored, quit_app = _buttons()
            with section("appearance"), gr.Column(elem_classes="part"):
                appearance = gr.HTML(theme_html(settings.theme), elem_id="theme", js_on_load=LISTEN)
            with section("chats"):
                chats = build_chat_controls(settings)
            with section("lookahead"):
                decoder = build_decoder_controls(to_values(settings.options))
            with section("data"):
                data = build_data_controls()
            with section("connect"):
                connect = build_connect_controls(settings)
            with section("privacy"):
                privacy = build_privacy_controls()
            with section("about"):
                about = build_about_controls()
    before: PageValue[Any] = PageValue(lambda: None)
    return SettingsView(
        restore, restored, quit_app, appearance, chats, decoder, data, connect, privacy, about, before
    )


def _buttons() -> tuple[gr.Button, gr.HTML, gr.Button]:
    with gr.Column(elem_classes="part"):
        gr.HTML(
            "<h3>Defaults</h3><p class='hint'>Sampling, decoder and appearance. The model stays.</p>",
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
    return restore, restored, quit_app
