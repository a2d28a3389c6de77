"""The option controls and the model boxes: what is chosen is remembered, and what is wrong is shown beside them."""

from pathlib import Path

import pytest

from app.chat_messages import ChatManner
from app.messages import Options
from app.ui import Desk
from app.ui.controls import show_options
from app.ui.models.deeds import Deeds
from app.ui.models.stock import Shelf
from app.ui.options import OptionActions
from tests.fakes import ScriptedEngine

CONTROLS = show_options(Options())


@pytest.fixture
def actions(desk: Desk) -> OptionActions:
    return OptionActions(desk, Deeds(desk, Shelf(desk)).ask_or_load)


def test_options_are_remembered_or_the_reason_is_shown_beside_them(
    actions: OptionActions, desk: Desk
) -> None:
    assert actions.choose_options(*CONTROLS._replace(window=9)) == ""
    assert desk.settings.options.decoding.window == 9
    assert "Window must be" in actions.choose_options(*CONTROLS._replace(window=-9))
    assert desk.settings.options.decoding.window == 9


def test_an_emptied_box_is_told(actions: OptionActions) -> None:
    assert "The box for seed is empty" in actions.choose_options(*CONTROLS._replace(seed=None))


def test_settings_that_cannot_be_saved_are_told_and_hold(
    actions: OptionActions, desk: Desk, tmp_path: Path
) -> None:
    (tmp_path / "settings.json").mkdir()  # as good as a full disk: the file cannot be replaced
    assert "could not be saved" in actions.choose_options(*CONTROLS._replace(guesses=3))
    assert desk.settings.options.decoding.guesses == 3


def test_an_empty_model_box_loads_nothing(actions: OptionActions, engine: ScriptedEngine) -> None:
    assert "model box is empty" in actions.load_model(" ", "auto", "auto", "none", "auto")[0]
    assert engine.loads == []
    assert actions.load_model("org/model", "auto", "auto", "int8", "sdpa") == ("", "")
    assert (engine.loads[0].name, engine.loads[0].attention) == ("org/model", "sdpa")


def test_a_model_is_not_switched_under_a_reply_without_asking(
    actions: OptionActions, desk: Desk, engine: ScriptedEngine
) -> None:
    engine.pause, engine.text = 0.01, "word " * 300
    desk.conversations.begin(ChatManner(), False, "one", desk.asked(Options()))
    problem, question = actions.load_model("org/model", "auto", "auto", "none", "auto")
    assert (problem, engine.loads) == ("", [])
    assert "A reply is being written. Stop it, and load org/model?" in question
    desk.stop()
