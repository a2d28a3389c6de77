"""Errors of actions: those that were foreseen are sentences, all others are logged."""

import logging

import pytest

from app.errors import BadOption
from app.ui.frame.page_events import succeeded, try_or_notify


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


def test_what_succeeds_says_nothing() -> None:
    heard: list[str] = []
    assert succeeded(heard.append, lambda: 0) and heard == []
