"""Reads what a page is sent, without the page."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from app.ui.frame.page_updates import PageStream, PolledRenderer

SECONDS = 300.0


def frames_until(
    views: Sequence[PolledRenderer], is_enough: Callable[[dict[str, Any]], object]
) -> list[dict[str, Any]]:
    """The frames of a new page, up to the first that is enough."""

    async def read() -> list[dict[str, Any]]:
        stream, seen = PageStream(views), list[dict[str, Any]]()
        async with asyncio.timeout(SECONDS):
            async for frame in stream.frames():
                seen.append(frame)
                if is_enough(frame):
                    break
        return seen

    return asyncio.run(read())


def frames(views: Sequence[PolledRenderer], times: int) -> list[dict[str, Any]]:
    count = iter(range(1, times + 1))
    return frames_until(views, lambda _: next(count) == times)
