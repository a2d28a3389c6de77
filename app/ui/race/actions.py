"""What events of the race's view do. They translate between the page and the race, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import gradio as gr

from app.conversation.race import Race
from app.conversation.race_prompts import next_prompt
from app.errors import AppError
from app.messages import EngineStatus, ModelChoice, Options
from app.race_messages import RacePrompt, RaceResult, TextKind
from app.ui.looking import changed, news, screens
from app.ui.race.controls import read_plan
from app.ui.race.report import json_file, picture_file
from app.ui.race.watching import RaceScreen, RaceWatcher
from app.ui.telling import Say

LOOK_SECONDS = 1 / 10
"""How often a page looks; a lane's bar moves as often."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a race takes from the rest of the app, asked anew each time."""

    options: Callable[[], Options]
    model: Callable[[], ModelChoice]
    status: Callable[[], EngineStatus]


@dataclass(slots=True)
class RaceSeat:
    """What one page saw of the race last, and the text of the person's own that stood in its box."""

    screen: RaceScreen = field(default_factory=RaceScreen)
    own: str = ""


class RaceActions:
    """The events of the race's view."""

    def __init__(self, race: Race, prompts: tuple[RacePrompt, ...], chosen: Chosen, say: Say) -> None:
        self.prompts = prompts
        self.chosen = chosen
        self._race = race
        self._say = say

    async def follow(self, seat: RaceSeat) -> AsyncIterator[tuple[Any, ...]]:
        """Look, and draw what changes now and then, until the page is closed; `stream` draws the rest."""
        watcher = RaceWatcher(self._race)

        async def look() -> RaceScreen:
            # On a thread of its own: it may ask the database.
            return await asyncio.to_thread(watcher.look, self.chosen.status().model)

        async for shown, seen in screens(look, self._say, LOOK_SECONDS):
            seat.screen = seen
            if shown is None or calm(shown) != calm(seen):
                yield updates(shown, seen)

    async def stream(self, seat: RaceSeat) -> AsyncIterator[tuple[str, str]]:
        """Draw what changes many times a second, as plain values: see app/ui/chat/actions.py."""
        async for seen in news(lambda: (seat.screen.status, seat.screen.board), ("", ""), LOOK_SECONDS):
            yield seen

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


def calm(screen: RaceScreen) -> RaceScreen:
    """All but what a running race changes at every look."""
    return replace(screen, status="", board="")


def updates(before: RaceScreen | None, now: RaceScreen) -> tuple[Any, ...]:
    """What the components that follow the race must become, in the order of `area.followers`."""
    return (
        *(changed(before, now, part) for part in ("notes", "texts", "history")),
        changed(before, now, "is_running", lambda running: gr.update(visible=not running)),
        changed(before, now, "is_running", lambda running: gr.update(visible=running)),
        changed(before, now, "has_result", lambda has: gr.update(visible=has)),
    )
