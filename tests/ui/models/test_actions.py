"""What buttons and boxes of the models' view do; before something is lost they ask."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from app.chat_messages import ChatSettings
from app.errors import SettingsNotSaved
from app.messages import ModelChoice, Options
from app.settings import ModelSettings
from app.ui import Services
from app.ui.models.actions import ModelActions
from app.ui.models.result_list import Found
from app.ui.models.stock import Shelf
from app.ui.models.watching import ModelsWatcher, models_parts
from tests.fake_models import DEMO_MODEL, HALF, SMALL, ScriptedModels, make_download
from tests.fakes import ScriptedEngine

NOTHING = Found()
SMALL_CHOICE = ModelChoice(f"org/small@{SMALL.revision}")


@pytest.fixture
def shelf(services: Services) -> Shelf:
    return Shelf(services)


@pytest.fixture
def heard() -> list[str]:
    return []


@pytest.fixture
def actions(services: Services, shelf: Shelf, heard: list[str]) -> ModelActions:
    actions = ModelActions(services, shelf, heard.append)
    actions.open()
    return actions


def press(actions: ModelActions, do: str, name: object = "", value: str = "", found: Found = NOTHING) -> Any:
    """Press a button; the answer is the kept result, what it looks like, and the question."""
    return actions.act(found, gr.EventData(None, {"do": do, "name": str(name), "value": value}))


def question(actions: ModelActions, do: str, name: object = "", value: str = "") -> str:
    return str(press(actions, do, name, value)[2])


def test_downloads_are_started_paused_and_resumed(actions: ModelActions, models: ScriptedModels) -> None:
    for deed in ("download", "pause", "resume"):
        assert question(actions, deed, "org/coder") == ""
    assert models.deeds == [("start", "org/coder"), ("pause", "org/coder"), ("resume", "org/coder")]


def test_what_cannot_be_done_is_said(actions: ModelActions, models: ScriptedModels, heard: list[str]) -> None:
    models.refuses = "The hub is switched off: allow it again."
    assert question(actions, "download", "org/coder") == ""
    assert heard == ["The hub is switched off: allow it again."]


def test_cancelling_asks_when_something_has_come(actions: ModelActions, models: ScriptedModels) -> None:
    models.on_the_way = (make_download("a/much"), make_download("a/nothing", done=0))
    assert "Cancel a/much? The 250 bytes that have come are removed." in question(actions, "cancel", "a/much")
    assert question(actions, "cancel", "a/nothing") == ""
    assert models.deeds == [("cancel", "a/nothing")]
    question(actions, "cancel-now", "a/much")
    assert models.deeds[-1] == ("cancel", "a/much")


def test_deleting_asks_first_and_says_what_it_frees(actions: ModelActions, models: ScriptedModels) -> None:
    assert "Delete org/small from this machine? That frees 2.00 GB." in question(
        actions, "delete", SMALL.path
    )
    assert models.deeds == []
    question(actions, "delete-now", SMALL.path)
    assert models.deeds == [("delete", "org/small")] and SMALL not in models.here


def test_a_model_that_has_gone_meanwhile_is_a_sentence(actions: ModelActions, heard: list[str]) -> None:
    question(actions, "load", "/gone", "auto")
    assert heard == ["This model is no longer there: open Models again."]


def test_loading_takes_what_was_judged(
    actions: ModelActions, engine: ScriptedEngine, heard: list[str]
) -> None:
    question(actions, "load", SMALL.path, "int4")
    question(actions, "load", DEMO_MODEL.path, "float32")
    question(actions, "load", SMALL.path, "a lie")
    assert engine.loads == [replace(SMALL_CHOICE, quantisation="int4"), ModelChoice("demo", "float32")]
    assert heard == ["Dtype must be one of auto, float32, bfloat16, float16, got 'a lie'."]


def test_a_finished_download_is_loaded_from_its_row(
    actions: ModelActions, models: ScriptedModels, engine: ScriptedEngine
) -> None:
    models.on_the_way = (make_download("org/small", "done", 1000, folder=SMALL.path),)
    question(actions, "load-download", "org/small")
    assert engine.loads == [SMALL_CHOICE]


def test_switching_and_unloading_ask_while_a_reply_is_written(
    actions: ModelActions, services: Services, engine: ScriptedEngine
) -> None:
    engine.pause, engine.text = 0.01, "word " * 300
    place = services.conversations.begin(ChatSettings(), False, "hi", services.asked(Options()))
    writing = services.conversations.newest(place.chat)
    assert writing is not None
    asked = question(actions, "load", SMALL.path, "auto")
    assert "Stop it, and load org/small?" in asked
    assert "unload the model?" in question(actions, "unload")
    assert (engine.loads, engine.unloads, writing.reply.is_stopping) == ([], 0, False)
    question(actions, "load-now", value=json.dumps([SMALL_CHOICE.name, "auto", "auto", "none", "auto"]))
    assert (engine.loads, writing.reply.is_stopping) == ([SMALL_CHOICE], True)
    question(actions, "unload-now")
    assert engine.unloads == 1


def test_a_model_is_let_go_of(actions: ModelActions, engine: ScriptedEngine) -> None:
    assert question(actions, "unload") == "" and engine.unloads == 1


def test_a_search_says_that_it_looks_and_then_what_it_found(actions: ModelActions) -> None:
    (_, waiting), (found, shown) = actions.search(" small ")
    assert "Looking for “small”" in waiting
    assert [hit.repo for hit in found.hits] == ["somebody/small-one", "other/small-two"]
    assert [one.entry.repo for one in found.recommended] == ["org/small"] and "somebody/" in shown
    assert list(actions.search("  ")) == [(Found(), "")]


def test_a_pasted_address_is_looked_at_itself(actions: ModelActions, models: ScriptedModels) -> None:
    *_, (found, _) = actions.search("https://hub/a/b")
    assert models.deeds == [("look at", "a/b")]
    [(looked, page)] = found.looked_at
    assert (looked.repo, page) == ("a/b", "https://hub/a/b")


def test_a_hit_is_looked_at_and_a_result_is_cleared(actions: ModelActions) -> None:
    found, shown, _ = press(actions, "look", "somebody/small-one", found=Found("small"))
    assert found.looked_at[0][0].repo == "somebody/small-one" and "Fits" in shown
    assert press(actions, "clear", found=found) == (Found(), "", "")


def test_without_a_hub_a_search_still_finds_what_is_recommended(
    actions: ModelActions, models: ScriptedModels
) -> None:
    models.refuses = "The hub is switched off."
    *_, (found, shown) = actions.search("small")
    assert found.recommended and "The hub is switched off." in shown
    *_, (_, shown) = actions.search("a/b")
    assert "The hub is switched off." in shown


def test_everything_is_judged_for_the_wish(
    actions: ModelActions, models: ScriptedModels, heard: list[str]
) -> None:
    actions.judge("int4", "16,384")
    assert models.judged_for[-1] == ("int4", 16_384)
    actions.judge("int3", "16,384")  # type: ignore[arg-type]
    assert heard[0].startswith("Weights must be kept as one of auto, float32")


def test_the_hub_is_switched_off_and_folders_come_and_go(
    actions: ModelActions, services: Services, models: ScriptedModels
) -> None:
    actions.switch_off(True)
    assert actions.add_folder(" /models ") == "" and actions.add_folder("/models") == ""
    assert services.settings.library == models.used[-1] == ModelSettings(("/models",), is_offline=True)
    question(actions, "forget-folder", "/models")
    assert services.settings.library.folders == ()


def test_settings_that_cannot_be_saved_are_told_and_hold(
    actions: ModelActions, services: Services, heard: list[str], tmp_path: Path
) -> None:
    (tmp_path / "settings.json").mkdir()
    actions.switch_off(True)
    assert "could not be saved" in heard[0] and services.settings.library.is_offline
    assert SettingsNotSaved.__name__ not in heard[0]


def test_a_token_leaves_the_box_once_it_is_kept(
    actions: ModelActions, models: ScriptedModels, heard: list[str]
) -> None:
    assert actions.log_in("hf_bad") == "hf_bad"
    assert heard == ["The hub does not know this token."]
    assert (actions.log_in("hf_good"), models.token) == ("", "hf_good")
    actions.log_out()
    assert models.token == ""


def test_a_page_draws_only_what_changed(services: Services, models: ScriptedModels, shelf: Shelf) -> None:
    watcher = ModelsWatcher(services, shelf)
    first = watcher.look()
    assert watcher.look() is first
    models.on_the_way = (make_download("a/b"), make_download(HALF.name, "paused"))
    before, after = models_parts(first), models_parts(watcher.look())
    assert {part for part in after if after[part] != before[part]} == {"to-models", "downloads"}
    assert after["to-models"] == "Models (1 downloading, 1 paused)"


def test_the_model_boxes_follow_a_load(services: Services, engine: ScriptedEngine, shelf: Shelf) -> None:
    watcher = ModelsWatcher(services, shelf)
    before = models_parts(watcher.look())["model"]
    services.choose_model(SMALL_CHOICE)
    assert models_parts(watcher.look())["model"] == before, "it may not load"
    engine.end_loading(True)
    assert models_parts(watcher.look())["model"] != before
