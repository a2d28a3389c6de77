"""The actions of the Models view. Deletions are confirmed first."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from app.conversation import NewChat
from app.errors import SettingsNotSaved
from app.settings import ModelSettings
from app.ui import Services
from app.ui.models.actions import ModelsActions
from app.ui.models.discover import Filters, SearchResults
from app.ui.models.inventory import InventoryCache
from app.ui.models.load_dialog import LoadDialog
from app.ui.models.render import ModelsRenderer
from app.values.chat import ChatVersion
from app.values.messages import ModelChoice, Options
from tests.fake_models import HALF, SMALL, ScriptedModels, make_download
from tests.fakes import ScriptedEngine

NO_RESULTS = SearchResults()
SMALL_CHOICE = ModelChoice(f"org/small@{SMALL.revision}")


@pytest.fixture
def inventory(services: Services) -> InventoryCache:
    return InventoryCache(services)


@pytest.fixture
def notified() -> list[str]:
    return []


@pytest.fixture
def actions(services: Services, inventory: InventoryCache, notified: list[str]) -> ModelsActions:
    actions = ModelsActions(services, inventory, notified.append)
    actions.open()
    return actions


def press(
    actions: ModelsActions,
    do: str,
    name: object = "",
    value: str = "",
    results: SearchResults = NO_RESULTS,
    loading: LoadDialog | None = None,
) -> Any:
    """Press a button. Returns the results, their HTML, and the question."""
    event = gr.EventData(None, {"do": do, "name": str(name), "value": value})
    return actions.click(results, loading or LoadDialog(), event)


def make_renderer(services: Services, inventory: InventoryCache) -> ModelsRenderer:
    return ModelsRenderer(services, inventory, Filters(), LoadDialog())


def dialog(actions: ModelsActions, do: str, name: object = "", value: str = "") -> str:
    return str(press(actions, do, name, value)[2])


def test_downloads_are_started_paused_and_resumed(actions: ModelsActions, models: ScriptedModels) -> None:
    for do in ("download", "pause", "resume"):
        assert dialog(actions, do, "org/coder") == ""
    assert models.calls == [("start", "org/coder"), ("pause", "org/coder"), ("resume", "org/coder")]


def test_what_cannot_be_done_is_said(
    actions: ModelsActions, models: ScriptedModels, notified: list[str]
) -> None:
    models.refuses = "The hub is switched off: allow it again."
    assert dialog(actions, "download", "org/coder") == ""
    assert notified == ["The hub is switched off: allow it again."]


def test_cancelling_asks_when_something_has_come(actions: ModelsActions, models: ScriptedModels) -> None:
    models.on_the_way = (make_download("a/much"), make_download("a/nothing", done=0))
    assert "Cancel a/much? The 250 bytes downloaded so far are deleted." in dialog(
        actions, "cancel", "a/much"
    )
    assert dialog(actions, "cancel", "a/nothing") == ""
    assert models.calls == [("cancel", "a/nothing")]
    dialog(actions, "cancel-now", "a/much")
    assert models.calls[-1] == ("cancel", "a/much")


def test_deleting_asks_first_and_says_what_it_frees(actions: ModelsActions, models: ScriptedModels) -> None:
    assert "Delete org/small from this computer? This frees 2.00 GB." in dialog(actions, "delete", SMALL.path)
    assert models.calls == []
    dialog(actions, "delete-now", SMALL.path)
    assert models.calls == [("delete", "org/small")] and SMALL not in models.here


def test_a_model_that_has_gone_meanwhile_is_a_sentence(actions: ModelsActions, notified: list[str]) -> None:
    dialog(actions, "load", "/gone", "auto")
    assert notified == ["This model is no longer installed. Open Models again."]


def test_a_model_is_loaded_as_it_was_loaded_last(
    actions: ModelsActions, services: Services, engine: ScriptedEngine
) -> None:
    dialog(actions, "load", SMALL.path)
    assert engine.loads == [SMALL_CHOICE]
    services.choose_model(replace(SMALL_CHOICE, quantisation="int8", context=2048))
    engine.end_loading(True)
    services.choose_model(ModelChoice("demo"))
    engine.end_loading(True)
    dialog(actions, "load", SMALL.path)
    assert engine.loads[-1] == replace(SMALL_CHOICE, quantisation="int8", context=2048)


def test_a_finished_download_and_a_path_open_the_dialog(
    actions: ModelsActions, models: ScriptedModels, engine: ScriptedEngine, notified: list[str]
) -> None:
    loading = LoadDialog()
    models.on_the_way = (make_download("org/small", "done", 1000, folder=SMALL.path),)
    press(actions, "load-download", "org/small", loading=loading)
    assert loading.form is not None and loading.form.model == SMALL
    actions.open_path(loading, "/models/mine")
    assert loading.form.model.name == "mine"
    models.refuses = "The folder /gone does not exist: check the path."
    assert models.refuses in actions.open_path(loading, "/gone")
    assert notified == [] and engine.loads == []


def test_switching_and_unloading_ask_while_a_reply_is_written(
    actions: ModelsActions, services: Services, engine: ScriptedEngine
) -> None:
    engine.step_limit = 1
    place = services.conversations.start(NewChat(ChatVersion(), services.asked(Options()), "hi"))
    writing = services.conversations.newest_reply(place.chat)
    assert writing is not None
    asked = dialog(actions, "load", SMALL.path, "auto")
    assert "Stop it and load org/small?" in asked
    assert "unload the model?" in dialog(actions, "unload")
    assert (engine.loads, engine.unloads, writing.reply.is_stopping) == ([], 0, False)
    dialog(actions, "load-now", value=json.dumps([SMALL_CHOICE.name, "auto", "auto", "auto", "auto"]))
    assert (engine.loads, writing.reply.is_stopping) == ([SMALL_CHOICE], True)
    dialog(actions, "unload-now")
    assert engine.unloads == 1


def test_a_search_says_that_it_looks_and_then_what_it_found(actions: ModelsActions) -> None:
    (_, waiting), (found, shown) = actions.search(" small ")
    assert "Searching for “small”" in waiting
    assert [hit.repo for hit in found.hits] == ["somebody/small-one", "other/small-two"]
    assert [one.entry.repo for one in found.recommended] == ["org/small"] and "somebody/" in shown
    assert list(actions.search("  ")) == [(SearchResults(), "")]


def test_a_pasted_address_is_inspected_itself(actions: ModelsActions, models: ScriptedModels) -> None:
    *_, (found, _) = actions.search("https://hub/a/b")
    assert models.calls == [("look at", "a/b")]
    [(looked, page)] = found.inspected
    assert (looked.repo, page) == ("a/b", "https://hub/a/b")


def test_a_hit_is_inspected_and_a_result_is_cleared(actions: ModelsActions) -> None:
    found, shown, _ = press(actions, "inspect", "somebody/small-one", results=SearchResults("small"))
    assert found.inspected[0][0].repo == "somebody/small-one" and "Fits" in shown
    assert press(actions, "clear", results=found) == (SearchResults(), "", "")


def test_without_a_hub_a_search_still_finds_what_is_recommended(
    actions: ModelsActions, models: ScriptedModels
) -> None:
    models.refuses = "The hub is switched off."
    *_, (found, shown) = actions.search("small")
    assert found.recommended and "The hub is switched off." in shown
    *_, (_, shown) = actions.search("a/b")
    assert "The hub is switched off." in shown


def test_the_hub_is_switched_off_and_folders_come_and_go(
    actions: ModelsActions, services: Services, models: ScriptedModels, tmp_path: Path
) -> None:
    actions.set_offline(True)
    folder = str(tmp_path)
    assert actions.add_folder(f" {folder} ")[0] == "" and actions.add_folder(folder)[0] == ""
    assert services.settings.library == models.used[-1] == ModelSettings((folder,), is_offline=True)
    box, faults = actions.add_folder("/no/such")
    assert box == "/no/such" and "There is no such folder." in faults
    dialog(actions, "forget-folder", folder)
    assert services.settings.library.folders == ()
    services.deletions.undo()
    assert services.settings.library == models.used[-1] == ModelSettings((folder,), is_offline=True)


def test_settings_that_cannot_be_saved_are_told_and_hold(
    actions: ModelsActions, services: Services, notified: list[str], tmp_path: Path
) -> None:
    (tmp_path / "settings.json").mkdir()
    actions.set_offline(True)
    assert "could not be saved" in notified[0] and services.settings.library.is_offline
    assert SettingsNotSaved.__name__ not in notified[0]


def test_a_token_leaves_the_box_once_it_is_kept(actions: ModelsActions, models: ScriptedModels) -> None:
    box, faults = actions.log_in("hf_bad")
    assert box == "hf_bad" and "The hub does not know this token." in faults
    assert (actions.log_in("hf_good")[0], models.token) == ("", "hf_good")
    actions.log_out()
    assert models.token == ""


def test_a_page_draws_only_what_changed(
    services: Services, models: ScriptedModels, inventory: InventoryCache
) -> None:
    renderer = make_renderer(services, inventory)
    before = renderer.render()
    assert renderer.render() is before
    models.on_the_way = (make_download("a/b"), make_download(HALF.name, "paused"))
    after = renderer.render()
    assert {part for part in after if after[part] != before[part]} == {"to-models", "downloads"}
    assert after["to-models"] == "Models (1 downloading, 1 paused)"


def test_the_model_boxes_follow_a_load(
    services: Services, engine: ScriptedEngine, inventory: InventoryCache
) -> None:
    renderer = make_renderer(services, inventory)
    before = renderer.render()["model"]
    services.choose_model(SMALL_CHOICE)
    assert renderer.render()["model"] == before, "it may not load"
    engine.end_loading(True)
    assert renderer.render()["model"] != before
