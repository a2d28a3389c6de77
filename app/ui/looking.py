"""How every view follows what it shows: it looks now and then, and what changed is drawn.

A look answers with the very same object while nothing changed, so most looks draw nothing. A look may fail, when a
disk does for a while, say: then the page keeps what it shows and looks on, and what is wrong is said once:

    looks     A    A    full!    full!    B
    said                "The disk is full…"
    drawn     A                           B
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import gradio as gr

from app.errors import AppError, first_line
from app.ui.telling import Say

Screen = TypeVar("Screen")
log = logging.getLogger(__name__)


async def screens(
    look: Callable[[], Awaitable[Screen]], say: Say, seconds: float
) -> AsyncIterator[tuple[Screen | None, Screen]]:
    """What was shown before (at first nothing) and what is to be shown now, until the page is closed."""
    problem, shown = _Problem(say), None
    while True:
        try:
            seen = await look()
            problem.is_over()
        # Whatever it is: a page that stopped following would stay as it is for good.
        except Exception as error:
            problem.tell(error)
        else:
            if seen is not shown:
                yield shown, seen
                shown = seen
        await asyncio.sleep(seconds)


async def news(look: Callable[[], Screen], shown: Screen, seconds: float) -> AsyncIterator[Screen]:
    """What a look sees whenever it is something else than what is `shown`, until the page is closed."""
    while True:
        if (seen := look()) != shown:
            yield seen
            shown = seen
        await asyncio.sleep(seconds)


class _Problem:
    """What is wrong with looking now: said when it begins, and not again until it is over."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._told = ""

    def is_over(self) -> None:
        self._told = ""

    def tell(self, error: Exception) -> None:
        is_known = isinstance(error, AppError)
        # The words of an error that nobody foresaw may differ at every look.
        name = str(error) if is_known else type(error).__name__
        if name == self._told:
            return
        self._told = name
        if not is_known:
            log.error("A view could not be drawn", exc_info=error)
        self._say(str(error) if is_known else unforeseen(error))


def unforeseen(error: Exception) -> str:
    """A mistake of ours as a sentence."""
    return (
        f"A part of this page could not be drawn ({first_line(error)}), which is tried again. "
        "The log has more: its path is in the settings under About."
    )


def changed(
    before: object | None, now: object, part: str, update: Callable[[Any], Any] = lambda value: value
) -> Any:
    """What the component that shows this part must become; a part that did not change is skipped."""
    value = getattr(now, part)
    return gr.skip() if before is not None and getattr(before, part) == value else update(value)
