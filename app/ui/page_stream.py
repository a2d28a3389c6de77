"""What a page shows, as a stream of what changed. One stream draws all views of one page.

A view is looked at now and then and answers with its parts; those that differ from what the page has travel to it:

    part            on the page
    str             the HTML of the component of that id, or the label of that button
    bool            data-NAME on the body, which the stylesheets read
    Blocks          a growing list of HTML blocks, of which only the changed ones travel

A look may fail, when a disk does for a while, notify: the page keeps what it shows, the part `problem` says what is
wrong, and the view is looked at again. The page acknowledges what it has drawn and gets nothing more before: a page
that sleeps costs nothing.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, TypeVar

from app.errors import AppError, first_line

ACTIVE_SECONDS = 1 / 12
"""How often a page is looked at while something happens on it; a reply is never drawn more often than this."""
IDLE_SECONDS = 1 / 4
"""The same while nothing happens."""
ACTIVE_FOR = 2.0
"""Seconds for which a page counts as active after something changed, or the person did something."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The HTML blocks of the message that is being written; 0 where there is none."""

    message: int = 0
    blocks: tuple[str, ...] = ()


Part = str | bool | Blocks
Parts = Mapping[str, Part]


Screen = TypeVar("Screen")


@dataclass(frozen=True, slots=True)
class View(Generic[Screen]):
    """How a part of the page is looked at. `look` gives the very same screen while nothing changed.

    While a look `is_slow` it happens on a thread of its own. `seconds` lie between two looks, at least."""

    look: Callable[[], Screen]
    parts: Callable[[Screen], Parts]
    is_slow: Callable[[], bool] = lambda: True
    seconds: float = IDLE_SECONDS


class PageStream:
    """Looks at the views of one page."""

    def __init__(self, views: Sequence[View[Any]]) -> None:
        self._views = [_Watched(view) for view in views]
        self._shown: dict[str, Part] = {}
        self._active_until = 0.0
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """The person does something: look soon, and often for a while."""
        self._active_until = monotonic() + ACTIVE_FOR
        self._woken.set()

    async def frames(self) -> AsyncIterator[dict[str, Any]]:
        """The changed parts, whenever there are some; everything at first. Endless."""
        while True:
            for watched in self._views:
                await watched.look()
            if frame := self._changed():
                self._active_until = monotonic() + ACTIVE_FOR
                yield frame
            await self._rest()

    def _changed(self) -> dict[str, Any]:
        parts: dict[str, Part] = {"problem": " ".join(filter(None, (one.problem for one in self._views)))}
        for watched in self._views:
            parts.update(watched.parts)
        shown, self._shown = self._shown, parts
        return {name: _sent(shown.get(name), now) for name, now in parts.items() if shown.get(name) != now}

    async def _rest(self) -> None:
        if monotonic() < self._active_until:
            await asyncio.sleep(ACTIVE_SECONDS)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_SECONDS):
                await self._woken.wait()
        self._woken.clear()


def _sent(before: Part | None, now: Part) -> Any:
    """A part as it travels: of blocks those from the first on that changed."""
    if not isinstance(now, Blocks):
        return now
    same = 0
    if isinstance(before, Blocks) and before.message == now.message:
        pairs = zip(before.blocks, now.blocks, strict=False)
        same = next(
            (at for at, (a, b) in enumerate(pairs) if a != b), min(len(before.blocks), len(now.blocks))
        )
    return {"message": now.message, "from": same, "blocks": now.blocks[same:]}


class _Watched:
    """A view, its parts at the last look, and what is wrong with looking now."""

    def __init__(self, view: View[Any]) -> None:
        self.parts: Parts = {}
        self.problem = ""
        self._view = view
        self._screen: object = None
        self._due = 0.0
        self._logged = ""

    async def look(self) -> None:
        """Look, where it is time."""
        view, now = self._view, monotonic()
        if now < self._due:
            return
        self._due = now + view.seconds * 0.9  # else every second look would come a moment too early
        try:
            self._see(await asyncio.to_thread(view.look) if view.is_slow() else view.look())
        # Whatever it is: a page that stopped following would stay as it is for good.
        except Exception as error:
            self.problem = str(error) if isinstance(error, AppError) else self._unforeseen(error)

    def _see(self, screen: object) -> None:
        if screen is not self._screen:
            self.parts = self._view.parts(screen)
            self._screen = screen
        self.problem = self._logged = ""

    def _unforeseen(self, error: Exception) -> str:
        # The words of such an error may differ at every look; it is logged, and told, once.
        if self._logged != type(error).__name__:
            self._logged = type(error).__name__
            log.error("A view could not be drawn", exc_info=error)
            return (
                f"A part of this page could not be drawn ({first_line(error)}). Foresight tries again. "
                "The log has more: its path is in the settings under About."
            )
        return self.problem
