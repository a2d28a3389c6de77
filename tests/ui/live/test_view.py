"""What the X-ray's controls do, when it is drawn, and what is exported."""

import json
import re
from html import unescape
from typing import Any

import gradio as gr
import pytest

from app.conversation import Reply, ReplySettings, StartedReply
from app.ui.chat.reply_progress import ReplyProgress
from app.ui.live.step_history import StepHistory, TracedStep
from app.ui.live.view import Move, XrayRenderer, XrayState, exported, use_control
from app.values.messages import ModelChoice, Options, Piece, Statistics
from tests.fakes import WordReader
from tests.ui.live.traces import ESSAY, PLAIN, history_of


def reply_with(*steps: TracedStep) -> tuple[ReplyProgress, Reply]:
    """A reply of these steps as a page follows it."""
    log = Reply()
    for number, step in enumerate(steps, start=1):
        append(log, number, step)
    progress = ReplyProgress(StartedReply(2, ReplySettings(ModelChoice("demo"), Options()), log), WordReader)
    progress.read()
    return progress, log


def append(log: Reply, number: int, step: TracedStep) -> None:
    origins = ("model",) * len(step.token_ids)
    log.append(Piece("x", step.token_ids, origins, Statistics(steps=number), (1,), step.trace))


def said(do: str, value: str = "") -> gr.EventData:
    return gr.EventData(None, {"do": do, "value": value})


@pytest.mark.parametrize(
    ("move", "on_screen", "shown"),
    [("pause", 12, 12), ("back", 12, 11), ("back", 11, 11), ("forward", 11, 12), ("forward", 12, 12),
     ("first", 12, 11), ("last", 11, 12), ("go", 11, 11), ("go", 999, 12), ("go", 0, 11)],
)  # fmt: skip
def test_controls_move_within_the_kept_steps(move: Move, on_screen: int, shown: int) -> None:
    state = XrayState()
    state.move(move, on_screen, history_of(ESSAY, PLAIN, last=12))
    assert (state.is_live, state.shown) == (False, shown)


def test_presses_that_come_faster_than_pictures_all_count() -> None:
    state, history = XrayState(), history_of(*[PLAIN] * 9)
    for _ in range(3):
        state.move("back", 9, history)
    assert state.number(history) == 6


def test_live_follows_the_newest_step() -> None:
    state = XrayState(is_live=False, shown=1)
    state.move("live", 1, history_of(ESSAY, PLAIN))
    assert state.is_live and state.number(history_of(*[PLAIN] * 5)) == 5
    assert state.number(StepHistory()) == 0


def test_a_step_that_is_no_longer_kept_gives_way_to_the_oldest() -> None:
    assert XrayState(is_live=False, shown=3).number(history_of(ESSAY, PLAIN, last=40)) == 39


def test_moving_where_there_is_nothing_is_harmless() -> None:
    state = XrayState()
    state.move("back", 0, StepHistory())
    assert state.number(StepHistory()) == 0


def test_it_is_drawn_while_it_is_open_and_only_when_something_changed() -> None:
    reply, log = reply_with(ESSAY, PLAIN)
    state = XrayState()
    renderer = XrayRenderer(state, lambda: reply)
    assert renderer.render() == {} and not renderer.is_open
    use_control(state, reply, said("open"))
    first = renderer.render()
    assert 'data-live="yes" data-first="1" data-last="2" data-shown="2"' in str(first["xray-picture"])
    assert renderer.render() is first
    append(log, 3, ESSAY)
    assert reply.read()
    use_control(state, reply, said("back", "2"))
    assert 'data-live="no" data-first="1" data-last="3" data-shown="1"' in str(
        renderer.render()["xray-picture"]
    )
    use_control(state, reply, said("close"))
    last = renderer.render()
    append(log, 4, ESSAY)
    reply.read()
    assert renderer.render() is last


def test_a_reply_that_goes_on_is_drawn_now_and_then() -> None:
    reply, log = reply_with(ESSAY)
    renderer = XrayRenderer(XrayState(is_open=True), lambda: reply)
    first = renderer.render()
    append(log, 2, PLAIN)
    assert reply.read()
    assert renderer.render() is first, "a moment later"


def test_without_a_reply_it_says_what_will_come() -> None:
    html = XrayRenderer(XrayState(is_open=True), lambda: None).render()["xray-picture"]
    assert "Nothing to see yet" in str(html)


def is_skip(update: Any) -> bool:
    return isinstance(update, dict) and update == gr.skip()


def test_the_export_is_a_file() -> None:
    reply, _ = reply_with(ESSAY, PLAIN)
    file = use_control(XrayState(), reply, said("export"))
    assert re.search(r'data-file="foresight-xray-\d{8}-\d{6}\.json" data-kind="application/json"', file)
    [text] = re.findall(r'data-text="([^"]*)"', file)
    assert unescape(text) == exported(reply)


def test_the_export_has_every_step_with_texts_settings_and_numbers() -> None:
    reply, _ = reply_with(ESSAY, PLAIN)
    document = json.loads(exported(reply))
    assert document["settings"]["model"]["name"] == "demo"
    assert document["statistics"]["steps"] == 2
    assert [step["number"] for step in document["steps"]] == [1, 2]
    assert document["steps"][0]["predicted"] == [8, 4, 1, 2, 3]
    assert document["steps"][0]["written"] == [8, 4]
    assert document["texts"]["6"] == "t6"


@pytest.mark.parametrize(
    ("do", "value"), [("", ""), ("explode", "1"), ("go", "x"), ("go", "-1"), ("go", "²"), ("export", "")]
)
def test_what_no_control_says_does_no_harm(do: str, value: str) -> None:
    assert is_skip(use_control(XrayState(), None, said(do, value)))
