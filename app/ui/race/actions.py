"""What events of the race's view do. They translate between the page and the race, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from app.conversation.race import Race
from app.conversation.race_setup import next_prompt
from app.errors import AppError
from app.messages import ModelChoice, Options
from app.race_messages import RacePrompt, RaceResult, TextKind
from app.ui.error_handling import Notify
from app.ui.race.controls import read_plan
from app.ui.race.report import json_file, picture_file


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a race takes from the rest of the app, asked anew each time."""

    options: Callable[[], Options]
    model: Callable[[], ModelChoice]


@dataclass(slots=True)
class RaceSeat:
    """The text of the person's own that stood in one page's box."""

    own: str = ""


class RaceActions:
    """The events of the race's view."""

    def __init__(self, race: Race, prompts: tuple[RacePrompt, ...], chosen: Chosen, notify: Notify) -> None:
        self.prompts = prompts
        self.chosen = chosen
        self._race = race
        self._notify = notify

    def choose(self, seat: RaceSeat, kind: TextKind, text: str) -> str:
        """The first ready-made prompt of a kind, or the next one; your own comes back with its kind."""
        if text.strip() and not any(prompt.text == text.strip() for prompt in self.prompts):
            seat.own = text
        return next_prompt(self.prompts, kind, text) or seat.own or text

    def own(self) -> TextKind:
        """The kind of a text that the person has changed."""
        return "own"

    def start(self, kind: TextKind, text: str, tokens: float | None, *lanes: Any) -> str:
        """Begin the race; the answer is what is wrong, or nothing."""
        try:
            plan = read_plan(
                self._kind(kind, text), text, tokens, lanes, self.chosen.options(), self.chosen.model()
            )
            self._race.start(plan)
        except AppError as error:
            return f'<p class="problem" role="alert">{escape(str(error))}</p>'
        return ""

    def stop(self) -> None:
        """End the race; what was written counts for nothing."""
        self._race.stop()

    def picture(self) -> str:
        """The race as a picture, for the page to save."""
        return self._file(picture_file)

    def everything(self) -> str:
        """The race as JSON."""
        return self._file(json_file)

    def _kind(self, kind: TextKind, text: str) -> TextKind:
        """The chosen kind, unless the text is no longer one of its prompts."""
        is_ready = any(prompt.kind == kind and prompt.text == text.strip() for prompt in self.prompts)
        return kind if is_ready else "own"

    def _file(self, made: Callable[[RaceResult], str]) -> str:
        result = self._race.state.result
        return made(result) if result else ""
