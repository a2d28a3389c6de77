"""What events of the option controls and the model boxes do. They translate between them and the desk."""

from collections.abc import Callable
from typing import Any

from app.errors import AppError
from app.messages import ModelChoice
from app.ui.controls import OptionControls, read_model, read_options
from app.ui.desk import Desk
from app.ui.words import problem_html

AskOrLoad = Callable[[ModelChoice], str]
"""Loads a model; the answer is the question to be asked first, or nothing."""


class OptionActions:
    """The events of one desk's options. No state of its own."""

    def __init__(self, desk: Desk, ask_or_load: AskOrLoad) -> None:
        self._desk = desk
        self._ask_or_load = ask_or_load

    def choose_options(self, *controls: Any) -> str:
        """Remember the options; the answer is what is wrong with them, or nothing."""
        try:
            self._desk.choose_options(read_options(OptionControls(*controls), self._desk.settings.options))
        except AppError as error:
            return problem_html(str(error))
        return ""

    def load_model(self, name: str, *choices: str) -> tuple[str, str]:
        """Have the model loaded; the answer is what is wrong with the choice, and what must be asked first."""
        try:
            return "", self._ask_or_load(read_model(name, *choices))
        except AppError as error:
            return problem_html(str(error)), ""
