"""What the X-ray's controls do."""

import re
from typing import Any

import gradio as gr
import pytest

from app.ui.chat.seat import Seat
from app.ui.live.actions import XrayActions
from app.ui.live.xray import key
from app.ui.live.xray_view import XrayView
from tests.ui.live.traces import ESSAY, PLAIN, Watching

LIVE, SEAT = XrayView(), Seat()


@pytest.fixture
def watching() -> Watching:
    return Watching(ESSAY, PLAIN)


def said(do: str, value: str = "", name: str = "") -> gr.EventData:
    return gr.EventData(None, {"do": do, "value": value, "name": name})


def is_skip(update: Any) -> bool:
    return isinstance(update, dict) and update == gr.skip()


def test_stepping_back_stops_and_shows_the_step_before(watching: Watching) -> None:
    view, picture, file = XrayActions(watching).act(LIVE, SEAT, said("back", "2"))
    assert view == XrayView(False, 1)
    assert 'data-shown="1"' in picture
    assert is_skip(file)


def test_following_draws_what_is_new_and_leaves_the_view_alone(watching: Watching) -> None:
    drawn = key(LIVE, watching.recording())
    watching.steps.append(ESSAY)
    view, picture, _ = XrayActions(watching).act(LIVE, SEAT, said("draw", "2", drawn))
    assert is_skip(view)
    assert 'data-shown="3"' in picture


def test_what_is_drawn_already_is_not_sent_again(watching: Watching) -> None:
    drawn = key(LIVE, watching.recording())
    assert all(map(is_skip, XrayActions(watching).act(LIVE, SEAT, said("draw", "2", drawn))))


def test_the_export_is_a_file_and_changes_nothing(watching: Watching) -> None:
    view, picture, file = XrayActions(watching).act(LIVE, SEAT, said("export"))
    assert is_skip(view) and is_skip(picture)
    assert re.search(r'data-file="foresight-xray-\d{8}-\d{6}\.json" data-kind="application/json"', file)


@pytest.mark.parametrize(
    ("do", "value"), [("", ""), ("explode", "1"), ("go", "x"), ("go", "-1"), ("go", "²")]
)
def test_what_no_control_says_does_no_harm(watching: Watching, do: str, value: str) -> None:
    view, _, file = XrayActions(watching).act(LIVE, SEAT, said(do, value))
    assert is_skip(view) or view == XrayView(False, 1)
    assert is_skip(file)
