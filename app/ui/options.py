"""What events of the option controls and the model boxes do. They translate between them and the services."""

from collections.abc import Callable, Sequence
from typing import Any

from app.errors import AppError
from app.messages import ModelChoice
from app.ui.controls import OptionControls, read_model, read_options, show_options
from app.ui.services import Services
from app.ui.words import problem_html

AskOrLoad = Callable[[ModelChoice], str]
"""Loads a model; the answer is the question to be asked first, or nothing."""


def changed_with(control: str) -> Sequence[str]:
    """What is remembered when this control changes: the switch and the choice of a decoder are one option."""
    decoder = ("lookahead", "decoder")
    return decoder if control in decoder else (control,)


class OptionActions:
    """The events of the app's options. No state of its own."""

    def __init__(self, services: Services, ask_or_load: AskOrLoad) -> None:
        self._services = services
        self._ask_or_load = ask_or_load

    def choose_options(self, changed: Sequence[str], *controls: Any) -> str:
        """Remember what was changed; the answer is what is wrong with what the page holds, or nothing.

        The other controls may be those of a page that fell behind: what they hold counts for its replies alone."""
        held, options = OptionControls(*controls), self._services.settings.options
        try:
            read_options(held, options)
            kept = show_options(options)._replace(**{name: getattr(held, name) for name in changed})
            self._services.choose_options(read_options(kept, options))
        except AppError as error:
            return problem_html(str(error))
        return ""

    def load_model(self, name: str, *choices: str) -> tuple[str, str]:
        """Have the model loaded; the answer is what is wrong with the choice, and what must be asked first."""
        try:
            return "", self._ask_or_load(read_model(name, *choices))
        except AppError as error:
            return problem_html(str(error)), ""
