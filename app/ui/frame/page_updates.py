"""Streams what changes on a page. One stream polls the parts of all views of one page, and sends those that differ
from what the page shows:

    type of a part    what it sets on the page
    str               the HTML of the component whose id is the part's name, or the label of the button with this id
    bool              the attribute data-NAME of the body, which the stylesheets read
    ReplyHtmlBlocks   a growing list of HTML blocks, which is sent from the first changed block on

While a view cannot be drawn, the page keeps what it shows, and the part `problem` contains the reason. The page
acknowledges each frame before it gets the next one, so a sleeping page costs nothing.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from types import MappingProxyType
from typing import Any

from app.errors import AppError, first_line

ACTIVE_SECONDS = 1 / 12
"""Seconds between two polls while something happens on a page. The HTML of a reply seldom changes more often."""
SLOW_SECONDS = 1 / 4
"""About the minimum number of seconds between two polls of a view that need not move smoothly."""
IDLE_SECONDS = 2 / 5
"""Seconds between two polls while nothing happens on a page."""
ACTIVE_FOR = 2.0
"""Seconds for which a page counts as active after something on it changed or it was used."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplyHtmlBlocks:
    """The HTML blocks of the message that is being written. `message` is its id; 0 if there is none."""

    message: int = 0
    blocks: tuple[str, ...] = ()


Part = str | bool | ReplyHtmlBlocks
Parts = Mapping[str, Part]


class CachedRenderer(ABC):
    """Renders a view for one page. Renders it again only when its inputs have changed."""

    _inputs: object = None
    _parts: Parts = MappingProxyType({})

    @abstractmethod
    def inputs(self) -> Any:
        """Return all values that the view shows."""

    @abstractmethod
    def draw(self, inputs: Any) -> Parts:
        """Return the view's parts for these inputs."""

    def render(self) -> Parts:
        """Return the view's parts; the same object if nothing changed."""
        inputs = self.inputs()
        if inputs != self._inputs:
            self._parts = self.draw(inputs)
            self._inputs = inputs  # set last: if drawing fails, the next call draws again
        return self._parts


@dataclass(slots=True, eq=False)
class PolledRenderer:
    """A view's `render`, which is called about every `seconds` or less often, and on another thread if `is_slow()`.

    `parts` are the newest parts. `problem` is why the view cannot be polled now. The next poll is due at `due`."""

    render: Callable[[], Parts]
    is_slow: Callable[[], bool] = lambda: True
    seconds: float = SLOW_SECONDS
    parts: Parts = field(default_factory=dict)
    problem: str = ""
    due: float = 0.0
    _logged: str = ""

    def poll(self) -> None:
        """Render the view's parts now, or note why that failed."""
        # Without the factor 0.9, every second poll would come a moment before the view is due.
        self.due = monotonic() + self.seconds * 0.9
        try:
            self.parts = self.render()
            self.problem = self._logged = ""
        except AppError as error:
            self.problem = str(error)
        # All errors are caught, because a page that is no longer polled would never change again. An unexpected
        # error's message may differ at every poll; only the first is logged and shown.
        except Exception as error:
            if self._logged != type(error).__name__:
                self._logged = type(error).__name__
                log.error("A view could not be drawn", exc_info=error)
                self.problem = (
                    f"A part of this page could not be drawn ({first_line(error)}). Foresight tries again. "
                    "The log has the details. Settings → About shows where it is."
                )


class PageStream:
    """Polls the views of one page."""

    def __init__(self, views: Sequence[PolledRenderer]) -> None:
        self._views = views
        self._shown: dict[str, Part] = {}
        self._active_until = 0.0
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Poll soon, then often for ACTIVE_FOR seconds, because the user uses the page."""
        self._active_until = monotonic() + ACTIVE_FOR
        self._woken.set()

    async def frames(self) -> AsyncIterator[dict[str, Any]]:
        """Yield all parts, then the changed parts whenever some have changed. Never ends."""
        while True:
            due = [view for view in self._views if monotonic() >= view.due]
            # All slow views share a thread, because handing over an unchanged view takes longer than rendering it.
            if slow := [view for view in due if view.is_slow()]:
                await asyncio.to_thread(_poll_each, slow)
            _poll_each([view for view in due if view not in slow])
            if frame := self._changed():
                self._active_until = monotonic() + ACTIVE_FOR
                yield frame
            await self._rest()

    def _changed(self) -> dict[str, Any]:
        # Each problem is shown once.
        problems = dict.fromkeys(one.problem for one in self._views if one.problem)
        parts: dict[str, Part] = {"problem": " ".join(problems)}
        for view in self._views:
            parts.update(view.parts)
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


def _poll_each(views: Sequence[PolledRenderer]) -> None:
    for view in views:
        view.poll()


def _sent(before: Part | None, now: Part) -> Any:
    """Return a part as it is sent: all of it, or the blocks of a reply from the first changed block on."""
    if not isinstance(now, ReplyHtmlBlocks):
        return now
    same = 0
    if isinstance(before, ReplyHtmlBlocks) and before.message == now.message:
        pairs = zip(before.blocks, now.blocks, strict=False)
        same = next(
            (at for at, (a, b) in enumerate(pairs) if a != b), min(len(before.blocks), len(now.blocks))
        )
    return {"message": now.message, "from": same, "blocks": now.blocks[same:]}
