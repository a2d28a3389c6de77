"""The actions of the Settings view: they change the settings, report errors, and can be undone."""

from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from app.settings import SettingsFile
from app.ui import Services
from app.ui.settings.controls import cost_html
from app.ui.settings.view import SettingsActions
from app.values.chat_format import Thinking
from app.values.messages import Decoding, EngineStatus, Options, Sampling
from app.values.model import RowPrice
from tests.fake_models import ScriptedModels
from tests.fakes import ScriptedEngine
from tests.ui.chat.people import pressed

PRICE = RowPrice(logits=1_000_000, cache=2_000)
W5N4G5 = Decoding("lookahead", window=5, ngram=4, guesses=5)


def test_rows_and_memory_of_lookahead_are_told() -> None:
    html = cost_html(W5N4G5, PRICE, "demo")
    assert (
        "30 rows per step" in html
        and "16 for the tree, 14 for the window; 21 rows with scores (logits)" in html
    )
    assert "21 MB for scores and 60 kB for keys and values" in html


def test_auto_promises_no_number() -> None:
    html = cost_html(Decoding("auto"), PRICE, "demo")
    assert "as many positions (rows) as are fastest" in html and "per step</b>" not in html


def test_a_models_name_cannot_write_html() -> None:
    assert "<img" not in cost_html(W5N4G5, PRICE, "<img src=x>")


@pytest.fixture
def notified() -> list[str]:
    return []


@pytest.fixture
def actions(services: Services, notified: list[str]) -> SettingsActions:
    return SettingsActions(services, notified.append)


def test_the_cost_follows_the_sizes_and_the_switch(actions: SettingsActions) -> None:
    assert "30 rows per step" in actions.cost(True, "lookahead", 0, 5, 4, 5)
    assert "1 row per step" in actions.cost(False, "lookahead", 0, 5, 4, 5)


@pytest.mark.parametrize("sizes", [(0, 999, 4, 5), (0, 5, 1, 5)])
def test_sizes_that_make_no_sense_leave_the_cost_as_it_is(actions: SettingsActions, sizes: Any) -> None:
    assert actions.cost(True, "lookahead", *sizes) == gr.skip()


def test_the_price_of_a_row_is_asked_for_once_a_model(
    actions: SettingsActions, models: ScriptedModels
) -> None:
    for _ in range(3):
        actions.cost(True, "lookahead", 0, 5, 4, 5)
    assert models.calls == [("row price", "demo")]


def test_without_a_model_nothing_is_asked(
    actions: SettingsActions, models: ScriptedModels, engine: ScriptedEngine
) -> None:
    engine.now = EngineStatus("ready", "No model is loaded.")
    assert "Load a model to see" in actions.cost(True, "lookahead", 0, 5, 4, 5)
    assert models.calls == []


def test_a_price_that_cannot_be_had_is_said(
    actions: SettingsActions, models: ScriptedModels, notified: list[str]
) -> None:
    models.refuses = "Its config.json makes no sense."
    assert "Load a model to see" in actions.cost(True, "lookahead", 0, 5, 4, 5)
    assert notified == [models.refuses]


def test_a_preset_is_shown_and_remembered(actions: SettingsActions, services: Services) -> None:
    assert actions.preset(pressed("preset", "13b")) == ("lookahead", 10, 5, 10)
    decoding = services.settings.options.decoding
    assert (decoding.decoder, decoding.window, decoding.ngram, decoding.guesses) == ("lookahead", 10, 5, 10)


def test_looks_are_remembered_and_nonsense_is_not(
    actions: SettingsActions, services: Services, tmp_path: Path
) -> None:
    actions.choose_appearance(pressed("theme", "dark"))
    actions.choose_appearance(pressed("theme", "pink"))
    actions.choose_appearance(pressed("text-size", "130"))
    actions.choose_appearance(pressed("text-size", "1000"))
    assert services.appearance == {"theme": "dark", "text-size": "130"}
    assert SettingsFile(tmp_path).load().text_size == "130"


def test_defaults_come_back_and_can_be_undone(actions: SettingsActions, services: Services) -> None:
    chosen = Options(Sampling(0.7), max_new_tokens=77)
    services.change_options(lambda _: chosen)
    services.choose(theme="dark", text_size="115")
    before, sentence, *_ = actions.restore()
    assert "Undo" in sentence
    assert services.settings.options == Options()
    assert services.appearance == {"theme": "system", "text-size": "100"}
    actions.undo(before)
    assert services.settings.options == chosen
    assert services.appearance == {"theme": "dark", "text-size": "115"}


@pytest.mark.parametrize("is_chosen", [True, False])
def test_undo_knows_whether_the_temperature_was_chosen(
    actions: SettingsActions, services: Services, models: ScriptedModels, is_chosen: bool
) -> None:
    """Also a chosen temperature that is the model's own, and one that another model recommends."""
    services.choose(options=Options(Sampling(0.7)), is_temperature_chosen=is_chosen)
    models.temperatures["demo"] = 0.7
    before, *_ = actions.restore()
    models.temperatures["demo"] = 0.6
    thinking = Thinking(budget=9)
    services.change(lambda now: now.with_thinking(thinking))
    actions.undo(before)
    assert services.settings.is_temperature_chosen == is_chosen
    assert services.settings.options == Options(Sampling(0.7 if is_chosen else 0.6), thinking=thinking)
