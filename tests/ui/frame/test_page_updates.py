"""A page gets what changed and nothing else, whatever a look fails with, and no more than it can draw."""

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest

from app.errors import StoreFull
from app.ui.frame import page_updates
from app.ui.frame.page_updates import PageStream, Parts, PolledRenderer, ReplyHtmlBlocks
from tests.support.waiting import PATIENCE
from tests.ui.streaming import frames

FULL = StoreFull("The disk is full: free some space.")
ODD = ValueError("year 57916 is out of range")


class Sights:
    """Sees what it is told to, one look after the other, and then that nothing changes."""

    def __init__(self, *sights: Parts | Exception) -> None:
        self._sights: Iterator[Parts | Exception] = iter(sights)
        self._last: Parts = {}
        self.threads: list[int] = []

    def render(self) -> Parts:
        self.threads.append(threading.get_ident())
        sight = next(self._sights, self._last)
        if isinstance(sight, Exception):
            raise sight
        self._last = sight
        return sight

    def view(self, is_slow: bool = False) -> PolledRenderer:
        return PolledRenderer(self.render, lambda: is_slow, seconds=0.0)


def test_the_first_frame_has_everything_and_the_next_what_changed() -> None:
    one = Sights({"title": "a", "is-busy": False}, {"title": "b", "is-busy": False})
    other = Sights({"list": "x"})
    assert frames([one.view(), other.view()], 2) == [
        {"problem": "", "title": "a", "is-busy": False, "list": "x"},
        {"title": "b"},
    ]


def test_what_several_views_fail_with_is_told_once() -> None:
    assert frames([Sights(FULL).view(), Sights(FULL).view(), Sights({"title": "a"}).view()], 1) == [
        {"problem": str(FULL), "title": "a"}
    ]


def test_of_blocks_only_those_travel_that_changed() -> None:
    growing = [
        ReplyHtmlBlocks(7, ("a",)),
        ReplyHtmlBlocks(7, ("a", "b")),
        ReplyHtmlBlocks(7, ("a", "c", "d")),
        ReplyHtmlBlocks(),
        ReplyHtmlBlocks(8, ("a",)),
    ]
    seen = [frame["live"] for frame in frames([Sights(*({"live": one} for one in growing)).view()], 5)]
    assert seen == [
        {"message": 7, "from": 0, "blocks": ("a",)},
        {"message": 7, "from": 1, "blocks": ("b",)},
        {"message": 7, "from": 1, "blocks": ("c", "d")},
        {"message": 0, "from": 0, "blocks": ()},
        {"message": 8, "from": 0, "blocks": ("a",)},
    ]


def test_blocks_that_became_fewer_are_taken_away() -> None:
    shrinking = Sights({"live": ReplyHtmlBlocks(7, ("a", "b"))}, {"live": ReplyHtmlBlocks(7, ("a",))})
    assert frames([shrinking.view()], 2)[1]["live"] == {"message": 7, "from": 1, "blocks": ()}


def test_what_fails_is_said_until_it_is_over_and_the_page_keeps_what_it_shows() -> None:
    sights = Sights({"title": "a"}, FULL, FULL, {"title": "b"}, FULL, {"title": "c"})
    assert frames([sights.view()], 5) == [
        {"problem": "", "title": "a"},
        {"problem": str(FULL)},
        {"problem": "", "title": "b"},
        {"problem": str(FULL)},
        {"problem": "", "title": "c"},
    ]


def test_a_view_that_fails_keeps_no_other_from_being_drawn() -> None:
    assert frames([Sights(FULL).view(), Sights({"title": "a"}).view()], 1) == [
        {"problem": str(FULL), "title": "a"}
    ]


def test_what_nobody_foresaw_is_logged_once_with_its_trace_and_the_page_looks_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        first, second = frames([Sights(ODD, ODD, ValueError("another line"), {"title": "a"}).view()], 2)
    [logged] = caplog.records
    assert logged.exc_info is not None and logged.exc_info[1] is ODD
    assert "year 57916" in first["problem"] and "tries again" in first["problem"]
    assert second == {"problem": "", "title": "a"}


@pytest.mark.parametrize("is_slow", [False, True])
def test_only_a_slow_look_leaves_the_event_loops_thread(is_slow: bool) -> None:
    sights = Sights({"title": "a"})
    frames([sights.view(is_slow)], 1)
    assert (sights.threads[0] != threading.get_ident()) == is_slow


def test_slow_views_are_polled_on_one_thread_and_a_view_that_fails_keeps_no_other_from_it() -> None:
    full, drawn, fast = Sights(FULL), Sights({"title": "a"}), Sights({"list": "x"})
    views = [full.view(is_slow=True), fast.view(), drawn.view(is_slow=True)]
    assert frames(views, 1) == [{"problem": str(FULL), "list": "x", "title": "a"}]
    assert full.threads == drawn.threads != fast.threads


def test_a_resting_page_is_not_polled_and_at_once_when_the_person_does_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_updates, "IDLE_SECONDS", 10 * PATIENCE)

    async def run() -> int:
        stream, sights = PageStream([view := Sights({"title": "a"}).view()]), view.render.__self__  # type: ignore[attr-defined]
        reading = asyncio.create_task(anext(frames_of := stream.frames()))
        await reading
        stream._active_until = 0.0
        waiting = asyncio.ensure_future(anext(frames_of))
        await asyncio.sleep(0.3)
        resting = len(sights.threads) - 1
        stream.wake()
        async with asyncio.timeout(PATIENCE):
            while len(sights.threads) == resting + 1:
                await asyncio.sleep(0.001)
        waiting.cancel()
        return resting

    assert asyncio.run(run()) <= 1
