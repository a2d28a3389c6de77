"""A page looks on whatever comes: what is wrong is said once, and what nobody foresaw is in the log."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass

import gradio as gr
import pytest

from app.errors import StoreFull
from app.ui.looking import changed, screens

FULL = StoreFull("The disk is full: free some space.")
ODD = ValueError("year 57916 is out of range")


class Eyes:
    """Sees what it is told to, one look after the other, and then that nothing changes."""

    def __init__(self, *sights: str | Exception) -> None:
        self._sights: Iterator[str | Exception] = iter(sights)
        self.heard: list[str] = []

    async def look(self) -> str:
        sight = next(self._sights)
        if isinstance(sight, Exception):
            raise sight
        return sight

    def follow(self, times: int) -> list[tuple[str | None, str]]:
        """What is drawn, as often."""

        async def read() -> list[tuple[str | None, str]]:
            drawing = screens(self.look, self.heard.append, 0.0)
            return [await anext(drawing) for _ in range(times)]

        return asyncio.run(read())


def test_only_another_screen_is_drawn() -> None:
    assert Eyes("one", "one", "one", "two").follow(2) == [(None, "one"), ("one", "two")]


def test_what_fails_is_said_once_and_once_more_when_it_comes_back() -> None:
    eyes = Eyes("one", FULL, FULL, "two", "two", FULL, "three")
    assert eyes.follow(3) == [(None, "one"), ("one", "two"), ("two", "three")]
    assert eyes.heard == [str(FULL), str(FULL)]


def test_a_page_that_fails_at_first_is_drawn_later() -> None:
    assert Eyes(FULL, "one").follow(1) == [(None, "one")]


def test_what_nobody_foresaw_is_logged_once_with_its_trace_and_the_page_looks_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    eyes = Eyes(ODD, ODD, ValueError("another line"), "one")
    with caplog.at_level(logging.ERROR):
        assert eyes.follow(1) == [(None, "one")]
    [logged] = caplog.records
    assert logged.exc_info is not None and logged.exc_info[1] is ODD
    [sentence] = eyes.heard
    assert "year 57916" in sentence and "tried again" in sentence


@dataclass(frozen=True)
class Sight:
    """A screen with two parts."""

    title: str
    count: int


def test_a_part_that_did_not_change_is_skipped() -> None:
    before, now = Sight("a", 1), Sight("a", 2)
    assert changed(before, now, "title") == gr.skip()
    assert changed(before, now, "count", str) == "2"
    assert changed(None, now, "title") == "a"
