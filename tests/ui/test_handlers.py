"""Handlers translate: the right request leaves, the right parts of the page change, nothing typed is lost."""

import asyncio
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from app.messages import Options
from app.ui import Desk
from app.ui.controls import show_options
from app.ui.handlers import Handlers, updates
from app.ui.models.deeds import Deeds
from app.ui.models.stock import Shelf
from app.ui.watcher import Watcher
from tests.fakes import ScriptedEngine

CONTROLS = show_options(Options())
SKIPPED = gr.skip()


class Heard(list[str]):
    """The sentences that were shown in passing."""

    def __call__(self, sentence: str) -> None:
        self.append(sentence)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def handlers(desk: Desk, heard: Heard) -> Handlers:
    return Handlers(desk, heard, Deeds(desk, Shelf(desk)).ask_or_load)


def test_a_message_is_sent_with_what_the_controls_hold(handlers: Handlers, engine: ScriptedEngine) -> None:
    controls = CONTROLS._replace(lookahead=False, temperature=0.5, max_new_tokens=9)
    assert handlers.ask("  hello ", *controls) == ""
    [request] = engine.requests
    assert request.prompt[-1].content == "hello"  # type: ignore[union-attr]
    assert request.options.decoding.decoder == "plain"
    assert (request.options.sampling.temperature, request.options.max_new_tokens) == (0.5, 9)


def test_a_blank_message_is_not_sent(handlers: Handlers, engine: ScriptedEngine) -> None:
    assert handlers.ask(" \n", *CONTROLS) == SKIPPED
    assert engine.requests == []


def test_a_bad_value_keeps_the_message_in_the_box(
    handlers: Handlers, engine: ScriptedEngine, heard: Heard
) -> None:
    assert handlers.ask("hello", *CONTROLS._replace(max_new_tokens=0)) == SKIPPED
    assert heard == ["Max new tokens must be at least 1, got 0."]
    assert engine.requests == []


def test_a_message_during_a_reply_stays_in_the_box(
    handlers: Handlers, engine: ScriptedEngine, heard: Heard
) -> None:
    engine.pause, engine.text = 0.01, "word " * 300
    handlers.ask("one", *CONTROLS)
    assert handlers.ask("two", *CONTROLS) == SKIPPED
    assert len(engine.requests) == 1
    assert "stop it first" in heard[0]
    handlers.stop()


def test_stopping_without_a_reply_does_nothing(handlers: Handlers) -> None:
    handlers.stop()


def test_regenerating_shows_the_seed_it_took(handlers: Handlers, engine: ScriptedEngine) -> None:
    sampled = CONTROLS._replace(temperature=1.0, seed=7)
    handlers.ask("hello", *sampled)
    assert handlers.regenerate(*sampled) == 8
    assert len(engine.requests) == 2


def test_regenerating_with_a_bad_value_says_so(handlers: Handlers, heard: Heard) -> None:
    handlers.ask("hello", *CONTROLS)
    assert handlers.regenerate(*CONTROLS._replace(ngram=0)) == SKIPPED
    assert heard == ["Ngram must be from 2 to 16, got 0."]


def test_options_are_remembered_or_the_reason_is_shown_beside_them(handlers: Handlers, desk: Desk) -> None:
    assert handlers.choose_options(*CONTROLS._replace(window=9)) == ""
    assert desk.settings.options.decoding.window == 9
    assert "Window must be" in handlers.choose_options(*CONTROLS._replace(window=-9))
    assert desk.settings.options.decoding.window == 9


def test_settings_that_cannot_be_saved_are_told_and_hold(
    handlers: Handlers, desk: Desk, tmp_path: Path
) -> None:
    (tmp_path / "settings.json").mkdir()  # as good as a full disk: the file cannot be replaced
    assert "could not be saved" in handlers.choose_options(*CONTROLS._replace(guesses=3))
    assert desk.settings.options.decoding.guesses == 3


def test_an_empty_model_box_loads_nothing(handlers: Handlers, engine: ScriptedEngine) -> None:
    assert "model box is empty" in handlers.load_model(" ", "auto", "auto", "none", "auto")[0]
    assert engine.loads == []
    assert handlers.load_model("org/model", "auto", "auto", "int8", "sdpa") == ("", "")
    assert (engine.loads[0].name, engine.loads[0].attention) == ("org/model", "sdpa")


def test_a_model_is_not_switched_under_a_reply_without_asking(
    handlers: Handlers, engine: ScriptedEngine
) -> None:
    engine.pause, engine.text = 0.01, "word " * 300
    handlers.ask("one", *CONTROLS)
    problem, question = handlers.load_model("org/model", "auto", "auto", "none", "auto")
    assert (problem, engine.loads) == ("", [])
    assert "A reply is being written. Stop it, and load org/model?" in question
    handlers.stop()


def test_only_what_changed_is_drawn_again(desk: Desk) -> None:
    watcher = Watcher(desk)
    empty = watcher.look()
    assert SKIPPED not in updates(None, empty)[:8]
    assert all(update == SKIPPED for update in updates(empty, empty))


def test_the_chatbot_is_written_twice_in_a_turn(handlers: Handlers, engine: ScriptedEngine) -> None:
    engine.pause, engine.text = 0.02, "word " * 60
    drawn = asyncio.run(follow_a_reply(handlers))
    chats = [update[0] for update in drawn[1:] if update[0] != SKIPPED]
    assert len(drawn) > 6
    assert [len(chat["value"]) for chat in chats] == [1, 2]


async def follow_a_reply(handlers: Handlers) -> list[tuple[Any, ...]]:
    """Every update of a page from before a message until its reply is complete."""
    following = handlers.follow()
    drawn = [await anext(following)]
    handlers.ask("hello", *CONTROLS)
    while not drawn[1:] or drawn[-1][7] == SKIPPED or drawn[-1][7]["visible"]:
        drawn.append(await anext(following))
    await following.aclose()  # type: ignore[attr-defined]
    return drawn
