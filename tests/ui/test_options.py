"""The option controls and the model boxes: what is chosen is remembered, and what is wrong is shown beside them."""

from pathlib import Path
from typing import Any

import pytest

from app.chat_messages import ChatSettings
from app.messages import Options
from app.ui import Services
from app.ui.controls import show_options
from app.ui.models.actions import ModelsActions
from app.ui.models.inventory import InventoryCache
from app.ui.options import OptionActions, changed_with
from tests.fakes import ScriptedEngine

CONTROLS = show_options(Options())


@pytest.fixture
def actions(services: Services) -> OptionActions:
    return OptionActions(services, ModelsActions(services, InventoryCache(services), print).ask_or_load)


def choose(actions: OptionActions, **changed: Any) -> str:
    """Change one control of a page that was filled at the start."""
    [name] = changed
    return actions.choose_options(changed_with(name), *CONTROLS._replace(**changed))


def test_a_page_remembers_what_was_changed_on_it_and_nothing_else(
    actions: OptionActions, services: Services
) -> None:
    choose(actions, max_new_tokens=2000)
    choose(actions, temperature=0.5)  # on another page, where there are 512 still
    assert services.settings.options.max_new_tokens == 2000
    assert services.settings.options.sampling.temperature == 0.5


def test_the_decoder_that_was_chosen_comes_back_with_its_switch(
    actions: OptionActions, services: Services
) -> None:
    chosen = CONTROLS._replace(decoder="lookahead")
    actions.choose_options(changed_with("decoder"), *chosen)
    actions.choose_options(changed_with("lookahead"), *chosen._replace(lookahead=False))
    assert services.settings.options.decoding.decoder == "plain"
    actions.choose_options(changed_with("lookahead"), *chosen)
    assert services.settings.options.decoding.decoder == "lookahead"


def test_options_are_remembered_or_the_reason_is_shown_beside_them(
    actions: OptionActions, services: Services
) -> None:
    assert choose(actions, window=9) == ""
    assert services.settings.options.decoding.window == 9
    assert "Window must be" in choose(actions, window=-9)
    assert services.settings.options.decoding.window == 9


def test_an_emptied_box_is_told(actions: OptionActions) -> None:
    assert "The box for seed is empty" in choose(actions, seed=None)


def test_settings_that_cannot_be_saved_are_told_and_hold(
    actions: OptionActions, services: Services, tmp_path: Path
) -> None:
    (tmp_path / "settings.json").mkdir()  # as good as a full disk: the file cannot be replaced
    assert "could not be saved" in choose(actions, guesses=3)
    assert services.settings.options.decoding.guesses == 3


def test_an_empty_model_box_loads_nothing(actions: OptionActions, engine: ScriptedEngine) -> None:
    assert "model box is empty" in actions.load_model(" ", "auto", "auto", "none", "auto")[0]
    assert engine.loads == []
    assert actions.load_model("org/model", "auto", "auto", "int8", "sdpa") == ("", "")
    assert (engine.loads[0].name, engine.loads[0].attention) == ("org/model", "sdpa")


def test_a_model_is_not_switched_under_a_reply_without_asking(
    actions: OptionActions, services: Services, engine: ScriptedEngine
) -> None:
    engine.pause, engine.text = 0.01, "word " * 300
    services.conversations.begin(ChatSettings(), False, "one", services.asked(Options()))
    problem, question = actions.load_model("org/model", "auto", "auto", "none", "auto")
    assert (problem, engine.loads) == ("", [])
    assert "A reply is being written. Stop it and load org/model?" in question
    services.stop()
