"""What events of the page do. Handlers translate between controls and the desk, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Callable
from html import escape
from typing import Any

import gradio as gr

from app.errors import AppError
from app.messages import ModelChoice, Options
from app.ui.controls import OptionControls, read_model, read_options
from app.ui.desk import Desk
from app.ui.view import Screen
from app.ui.watcher import Watcher

LOOK_SECONDS = 1 / 16
"""How often a page looks; a reply is never drawn more often than this."""

Say = Callable[[str], None]
"""Shows a sentence to the person in passing, without taking anything away."""
AskOrLoad = Callable[[ModelChoice], str]
"""Loads a model; the answer is the question to be asked first, or nothing."""


class Handlers:
    """The events of one desk's pages. No state of its own."""

    def __init__(self, desk: Desk, say: Say, ask_or_load: AskOrLoad) -> None:
        self._desk = desk
        self._say = say
        self._ask_or_load = ask_or_load

    async def follow(self) -> AsyncIterator[tuple[Any, ...]]:
        """Draw the page, and draw again whenever something changed, until the page is closed."""
        watcher, shown = Watcher(self._desk), None
        while True:
            seen = watcher.look()
            if seen is not shown:
                yield updates(shown, seen)
                shown = seen
            await asyncio.sleep(LOOK_SECONDS)

    def ask(self, message: str, *controls: Any) -> Any:
        """Send the message; the box is emptied only once it is on its way."""
        if not message.strip():
            return gr.skip()
        if self._desk.conversation.is_busy:
            self._say("A reply is still being written: wait for its end, or stop it first.")
            return gr.skip()
        try:
            self._desk.ask(message.strip(), self._read(controls))
        except AppError as error:
            self._say(str(error))
            return gr.skip()
        return ""

    def regenerate(self, *controls: Any) -> Any:
        """Write the last answer anew; the seed box shows the seed that was taken."""
        try:
            return self._desk.regenerate(self._read(controls)).sampling.seed
        except AppError as error:
            self._say(str(error))
            return gr.skip()

    def stop(self) -> None:
        """Stop the reply under way; what was written stays."""
        self._desk.conversation.stop()

    def new_chat(self) -> None:
        """Stop, and begin an empty chat."""
        self._desk.conversation.clear()

    def choose_options(self, *controls: Any) -> str:
        """Remember the options; the answer is what is wrong with them, or nothing."""
        try:
            self._desk.choose_options(self._read(controls))
        except AppError as error:
            return problem_html(str(error))
        return ""

    def load_model(self, name: str, *choices: str) -> tuple[str, str]:
        """Have the model loaded; the answer is what is wrong with the choice, and what must be asked first."""
        try:
            return "", self._ask_or_load(read_model(name, *choices))
        except AppError as error:
            return problem_html(str(error)), ""

    def _read(self, controls: tuple[Any, ...]) -> Options:
        return read_options(OptionControls(*controls), self._desk.settings.options)


def problem_html(sentence: str) -> str:
    """A sentence near the control that it is about."""
    return f'<p class="problem" role="alert">{escape(sentence)}</p>'


def updates(before: Screen | None, now: Screen) -> tuple[Any, ...]:
    """What the components that follow the desk must become, in the order of `page.followers`.

    Parts that did not change are skipped: above all the Chatbot, which costs the whole history."""
    return (
        _changed(before, now, "chat", lambda: gr.update(value=list(now.chat), visible=bool(now.chat))),
        _changed(before, now, "live", lambda: gr.update(value=now.live, visible=bool(now.live))),
        _changed(before, now, "note", lambda: now.note),
        _changed(before, now, "panel", lambda: now.panel),
        _changed(before, now, "status", lambda: now.status),
        _changed(before, now, "is_empty", lambda: gr.update(visible=now.is_empty)),
        _changed(before, now, "is_busy", lambda: gr.update(visible=not now.is_busy)),
        _changed(before, now, "is_busy", lambda: gr.update(visible=now.is_busy)),
        gr.update(interactive=can_regenerate)
        if (can_regenerate := _can_regenerate(now)) != (before is not None and _can_regenerate(before))
        else gr.skip(),
    )


def _changed(before: Screen | None, now: Screen, part: str, update: Callable[[], Any]) -> Any:
    if before is not None and getattr(before, part) == getattr(now, part):
        return gr.skip()
    return update()


def _can_regenerate(screen: Screen) -> bool:
    return not screen.is_busy and not screen.is_empty
