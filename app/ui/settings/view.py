"""The Settings view: the app's choices on the left, About on the right."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import gradio as gr

from app.database.restoring import discard_replaced, stage
from app.messages import PRESETS, Decoding, ModelChoice
from app.model_messages import Precision, RowPrice
from app.settings import ChatDefaults, Theme
from app.ui.about.view import AboutView, build_about_view
from app.ui.error_handling import Notify, try_or_notify
from app.ui.model_controls import ModelControls, build_model_controls
from app.ui.option_controls import OptionValues, to_values
from app.ui.page_events import LISTEN, PageEvents
from app.ui.page_sessions import PageValue
from app.ui.services import Services
from app.ui.settings.chat_controls import ChatControls, build_chat_controls
from app.ui.settings.data_folder import measure_folder, open_folder
from app.ui.settings.decoder_controls import DecoderControls, build_decoder_controls
from app.ui.settings.render import cost_html, delete_chats_html, folder_html, restored_html, theme_html
from app.ui.uploads import discard, discard_all, upload_at


class SettingsActions:
    """The view's event handlers."""

    def __init__(
        self, services: Services, data_dir: Path, notify: Notify, quit_app: Callable[[], None]
    ) -> None:
        self._services = services
        self._data_dir = data_dir
        self._notify = notify
        self._quit = quit_app
        self._prices: dict[tuple[str, str], RowPrice | None] = {}

    def open(self) -> tuple[str, str]:
        """Render the appearance and the data folder when the view is opened."""
        return theme_html(self._services.settings.theme), self._folder()

    def cost(self, lookahead: bool, decoder: Any, *sizes: Any) -> Any:
        """The cost of the decoder in the controls. Nothing changes while their values are invalid."""
        try:
            rows, window, ngram, guesses = (int(size or 0) for size in sizes)
            decoding = Decoding(decoder if lookahead else "plain", window, ngram, guesses, rows)
        except ValueError:
            return gr.skip()
        model = self._services.engine.status().model
        return cost_html(decoding, self._price(), model.name if model else "")

    def preset(self, event: gr.EventData) -> tuple[Any, ...]:
        """Choose recommended sizes, and the decoder that uses them."""
        name = event._data.get("name")
        if name not in PRESETS:
            return (gr.skip(),) * 4
        options, (window, ngram, guesses) = self._services.settings.options, PRESETS[name]
        decoding = replace(options.decoding, decoder="lookahead", window=window, ngram=ngram, guesses=guesses)
        self._try(lambda: self._services.choose_options(replace(options, decoding=decoding)))
        return "lookahead", window, ngram, guesses

    def choose_theme(self, event: gr.EventData) -> None:
        """Save the appearance. The page itself has changed already."""
        theme = event._data.get("name")
        if theme in get_args(Theme):
            self._try(lambda: self._services.choose_theme(theme))

    def open_data_folder(self) -> None:
        """Open the data folder in the system's file manager."""
        if problem := open_folder(self._data_dir):
            self._notify(problem)

    def restore_backup(self, path: str | None) -> None:
        """Check an uploaded backup, delete the upload, and have the next start put it in place."""
        upload = self._try(lambda: upload_at(path)) if path is not None else None
        if upload is None:
            return
        try:
            self._try(lambda: self._stage(upload))
        finally:
            discard(upload)

    def _stage(self, backup: Path) -> None:
        stage(backup, self._data_dir)
        self._notify("The backup is ready. Quit Foresight and start it again to restore it.")

    def delete_chats(self) -> tuple[str, str]:
        """Delete all chats. Returns the data folder, and the closed question."""
        self._try(self._delete_chats)
        return self._folder(), delete_chats_html()

    def restore(self) -> tuple[Any, ...]:
        """Restore the default options and appearance. The model stays. Keeps the settings for `undo`."""
        before = self._services.settings
        self._try(self._services.restore_options)
        self._try(lambda: self._services.choose_theme("system"))
        return before, restored_html(), theme_html("system"), *to_values(self._services.settings.options)

    def undo(self, before: Any) -> tuple[Any, ...]:
        """Undo `restore`."""
        if before is None:
            return (gr.skip(),) * (3 + len(OptionValues._fields))
        self._try(lambda: self._services.choose_options(before.options))
        self._try(lambda: self._services.choose_theme(before.theme))
        return None, "", theme_html(before.theme), *to_values(before.options)

    def quit(self) -> None:
        """End the app."""
        self._quit()

    def _folder(self) -> str:
        return folder_html(self._data_dir, measure_folder(self._data_dir))

    def _delete_chats(self) -> None:
        self._services.conversations.delete_all()
        self._services.documents.delete_attached(())
        discard_all(self._data_dir)
        discard_replaced(self._data_dir)
        self._services.chat = 0
        self._notify("All chats were deleted.")

    def _price(self) -> RowPrice | None:
        """The memory that a row takes with the loaded model. Each model is asked once."""
        model, name = self._services.engine.status().model, self._services.settings.model.name
        if model is None:
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

    model: ModelControls
    decoder: DecoderControls
    chats: ChatControls
    theme: gr.HTML
    folder: gr.HTML
    backup: gr.UploadButton
    delete: gr.HTML
    before: PageValue[Any]
    restore: gr.Button
    restored: gr.HTML
    quit: gr.Button
    about: AboutView

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
        events.on(partial(gr.on, changes), actions.cost, sizes, decoder.cost, trigger_mode="always_last")
        chosen = [decoder.decoder, decoder.window, decoder.ngram, decoder.guesses]
        events.on(decoder.presets.click, actions.preset, outputs=chosen)
        events.on(self.theme.click, actions.choose_theme)
        events.on(self.folder.click, actions.open_data_folder)
        events.on(self.backup.upload, actions.restore_backup, self.backup)
        events.on(self.delete.click, actions.delete_chats, outputs=[self.folder, self.delete])
        restored = [self.before, self.restored, self.theme, *panel, *decoder.controls]
        events.on(self.restore.click, actions.restore, outputs=restored)
        events.on(self.restored.click, actions.undo, self.before, restored)
        events.on(self.quit.click, actions.quit)
        events.on(opening.click, actions.open, outputs=[self.theme, self.folder])
        events.on(opening.click, actions.cost, sizes, decoder.cost)


def build_settings_view(
    model: ModelChoice, options: OptionValues, theme: Theme, defaults: ChatDefaults
) -> SettingsView:
    """Create the components inside the current Blocks."""
    with gr.Row(elem_id="settings"):
        with gr.Column(elem_id="choices", scale=1):
            model_controls = build_model_controls(model)
            decoder = build_decoder_controls(options)
            chats = build_chat_controls(defaults)
            with gr.Column(elem_classes="part"):
                appearance = gr.HTML(theme_html(theme), elem_id="theme", js_on_load=LISTEN)
            folder, backup, delete = _folder()
            restore, restored, quit_app = _buttons()
        with gr.Column(elem_id="about", scale=0, min_width=320):
            about = build_about_view()
    before: PageValue[Any] = PageValue(lambda: None)
    return SettingsView(
        model_controls,
        decoder,
        chats,
        appearance,
        folder,
        backup,
        delete,
        before,
        restore,
        restored,
        quit_app,
        about,
    )


def _folder() -> tuple[gr.HTML, gr.UploadButton, gr.HTML]:
    with gr.Column(elem_id="data", elem_classes="part"):
        gr.HTML("<h3>Data folder</h3>", js_on_load=None)
        # Apart, so that the open question stays when the sizes are drawn anew.
        folder = gr.HTML(elem_id="data-folder", js_on_load=LISTEN)
        backup = gr.UploadButton(
            "Restore a backup…", elem_id="restore-backup", size="sm", scale=0, file_types=[".sqlite"]
        )
        return folder, backup, gr.HTML(delete_chats_html(), elem_id="delete-chats", js_on_load=LISTEN)


def _buttons() -> tuple[gr.Button, gr.HTML, gr.Button]:
    with gr.Row(elem_id="settings-buttons", elem_classes="part"):
        restore = gr.Button("Restore defaults", elem_id="restore", size="sm", scale=0)
        restored = gr.HTML(elem_id="restored", js_on_load=LISTEN)
        quit_app = gr.Button("Quit Foresight", elem_id="quit", size="sm", scale=0)
    return restore, restored, quit_app
