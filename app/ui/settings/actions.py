"""What events of the settings' view do. They translate between the page and the services, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import gradio as gr

from app.messages import PRESETS, Decoding, Options
from app.model_messages import Precision, RowPrice
from app.settings import Theme
from app.ui.error_handling import Notify, try_or_notify
from app.ui.option_controls import OptionValues, to_values
from app.ui.services import Services
from app.ui.settings.cost_html import cost_html
from app.ui.settings.folder import folder_html, measure_folder, open_folder
from app.ui.settings.restored_html import restored_html
from app.ui.settings.theme_html import theme_html
from app.ui.uploads import discard_all


class SettingsActions:
    """The events of the settings' view."""

    def __init__(
        self, services: Services, data_dir: Path, notify: Notify, quit_app: Callable[[], None]
    ) -> None:
        self._services = services
        self._data_dir = data_dir
        self._notify = notify
        self._quit = quit_app
        self._prices: dict[tuple[str, str], RowPrice | None] = {}

    def open(self) -> tuple[str, str]:
        """How the app looks, and what lies in the data folder now."""
        theme = theme_html(self._services.settings.theme)
        return theme, self._folder()

    def cost(self, lookahead: bool, decoder: Any, *sizes: Any) -> Any:
        """What the decoder costs as the controls stand; nothing while they make no sense."""
        try:
            rows, window, ngram, guesses = (int(size or 0) for size in sizes)
            decoding = Decoding(decoder if lookahead else "plain", window, ngram, guesses, rows)
        except ValueError:
            return gr.skip()
        model = self._services.engine.status().model
        return cost_html(decoding, self._price(), model.name if model else "")

    def preset(self, event: gr.EventData) -> tuple[Any, ...]:
        """W, N and G as their authors advise, with the decoder that uses them."""
        name = event._data.get("name")
        if name not in PRESETS:
            return (gr.skip(),) * 4
        options, (window, ngram, guesses) = self._services.settings.options, PRESETS[name]
        decoding = replace(options.decoding, decoder="lookahead", window=window, ngram=ngram, guesses=guesses)
        self._try(lambda: self._services.choose_options(replace(options, decoding=decoding)))
        return "lookahead", window, ngram, guesses

    def choose_theme(self, event: gr.EventData) -> None:
        """Remember how the page looks; the page itself has followed already."""
        theme = event._data.get("name")
        if theme in get_args(Theme):
            self._try(lambda: self._services.choose_theme(theme))

    def in_folder(self, event: gr.EventData) -> str:
        """Open the data folder, or empty it of chats; what lies in it then."""
        match event._data.get("do"):
            case "open-folder":
                if problem := open_folder(self._data_dir):
                    self._notify(problem)
            case "delete-chats":
                self._try(self._delete_chats)
        return self._folder()

    def restore(self) -> tuple[Any, ...]:
        """Options and looks as they were delivered; the model stays. What was chosen can be brought back."""
        before = self._services.settings
        self._try(lambda: self._services.choose_options(Options()))
        self._try(lambda: self._services.choose_theme("system"))
        return before, restored_html(), theme_html("system"), *to_values(Options())

    def undo(self, before: Any) -> tuple[Any, ...]:
        """Options and looks as they were before `restore`."""
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
        discard_all(self._data_dir)
        self._services.chat = 0
        self._notify("All chats were deleted.")

    def _price(self) -> RowPrice | None:
        """The price of a row with the loaded model, asked for once a model."""
        model, name = self._services.engine.status().model, self._services.settings.model.name
        if model is None:
            return None
        precision = model.dtype if model.dtype in get_args(Precision) else "float32"
        key = (name, precision)
        if key not in self._prices:
            self._prices[key] = self._try(lambda: self._services.models.row_price(*key))  # type: ignore[arg-type]
        return self._prices[key]

    def _try(self, do: Callable[[], Any]) -> Any:
        """What it returns, or None when it failed, which is said."""
        return try_or_notify(self._notify, do, None)
