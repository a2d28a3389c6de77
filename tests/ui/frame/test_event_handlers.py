"""Handlers get and return their page's values, and their errors become sentences."""

import logging
from collections.abc import Iterator
from typing import Any

import gradio as gr
import pytest

from app.errors import BadOption
from app.ui.frame.event_handlers import RELOAD, PageEvents, succeeded, try_or_notify
from app.ui.frame.page_connections import Pages, PageValue


def fail_with(error: Exception) -> None:
    raise error


def test_an_expected_error_is_its_sentence_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []
    assert try_or_notify(heard.append, lambda: fail_with(BadOption("Too many.")), 7) == 7
    assert (heard, caplog.records) == (["Too many."], [])


@pytest.mark.parametrize("error", [ValueError("not 3 of 2"), KeyError("kind"), RuntimeError("no loop")])
def test_a_bug_is_logged_with_its_traceback_and_told_in_general(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    heard: list[str] = []
    with caplog.at_level(logging.ERROR):
        assert not succeeded(heard.append, lambda: fail_with(error))
    [logged] = caplog.records
    assert logged.exc_info is not None and logged.exc_info[1] is error
    assert heard[0].startswith("That did not work because of a bug in Foresight (")


COUNT = PageValue(lambda: 3)
NAMES: PageValue[list[str]] = PageValue(list)


class Asking(gr.Request):
    """A request of a page."""

    def __init__(self, session: str) -> None:
        super().__init__(session_hash=session)


class Joined:
    """What Gradio is given for an event, and what it would do with it."""

    def __init__(self) -> None:
        self.pages, self.said = Pages(), list[str]()
        self.events = PageEvents(self.pages, self.said.append)
        self.handler: Any = None
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def listen(self, handler: Any, inputs: list[Any], outputs: list[Any], **_: Any) -> None:
        self.handler, self.inputs, self.outputs = handler, inputs, outputs


@pytest.fixture
def joined() -> Joined:
    return Joined()


def test_a_handler_gets_and_returns_its_pages_values_among_the_others(joined: Joined) -> None:
    def handle(word: str, count: int, event: gr.EventData, *more: str) -> tuple[str, int, Any]:
        return f"{word}{event._data}{more}", count + 1, gr.skip()

    joined.events.on(joined.listen, handle, ["box", COUNT, "b1", "b2"], ["place", COUNT, NAMES])
    assert (joined.inputs, joined.outputs) == (["box", "b1", "b2"], ["place"])
    page = joined.pages.open("a")
    for count in (4, 5):
        assert joined.handler(Asking("a"), gr.EventData(None, "!"), "w", "x", "y") == "w!('x', 'y')"
        assert page.get(COUNT) == count
    assert page.get(NAMES) == []


def test_a_pages_value_may_be_all_that_a_handler_returns(joined: Joined) -> None:
    joined.events.on(joined.listen, lambda count: count + 1, COUNT, COUNT)
    page = joined.pages.open("a")
    assert joined.outputs == [] and joined.handler(Asking("a")) is None
    assert page.get(COUNT) == 4


def test_a_handler_may_draw_several_times(joined: Joined) -> None:
    def handle(count: int, word: str) -> Iterator[tuple[int, str]]:
        yield gr.skip(), "wait"  # type: ignore[misc]
        yield count + 1, word

    joined.events.on(joined.listen, handle, [COUNT, "box"], [COUNT, "place"])
    page = joined.pages.open("a")
    assert list(joined.handler(Asking("a"), "done")) == ["wait", "done"]
    assert page.get(COUNT) == 4


def test_a_page_of_another_run_is_told_to_reload_and_keeps_what_it_shows(joined: Joined) -> None:
    called = list[int]()
    joined.events.on(joined.listen, called.append, COUNT, "place")
    assert joined.handler(Asking("unknown")) == gr.skip()
    assert (called, joined.said) == ([], [RELOAD])
    joined.events.on(joined.listen, called.append, COUNT)
    assert joined.handler(Asking("unknown")) is None, "nothing for an event that draws nothing"
