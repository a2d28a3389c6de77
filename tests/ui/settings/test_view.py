"""The actions of the Settings view: they change the settings, report errors, and can be undone."""

from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import gradio as gr
import pytest

from app.chat_messages import ChatSettings, ChatVersion
from app.chats import Chats
from app.conversation import NewChat
from app.database import database_in
from app.database.restoring import apply_staged
from app.messages import EngineStatus, Options, Sampling
from app.settings import Settings
from app.ui import Services
from app.ui.settings.view import SettingsActions
from app.ui.uploads import uploads_dir
from tests.fake_models import ScriptedModels
from tests.fakes import ScriptedEngine


class Pressed:
    """A press on a button inside a list."""

    def __init__(self, do: str, name: str = "") -> None:
        self._data = {"do": do, "name": name}


@pytest.fixture
def notified() -> list[str]:
    return []


@pytest.fixture
def quit_requested() -> Event:
    return Event()


@pytest.fixture
def actions(
    services: Services, tmp_path: Path, notified: list[str], quit_requested: Event
) -> SettingsActions:
    return SettingsActions(services, tmp_path, notified.append, quit_requested.set)


def press(do: str, name: str = "") -> Any:
    return Pressed(do, name)


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
    assert actions.preset(press("preset", "13b")) == ("lookahead", 10, 5, 10)
    decoding = services.settings.options.decoding
    assert (decoding.decoder, decoding.window, decoding.ngram, decoding.guesses) == ("lookahead", 10, 5, 10)


def test_a_backup_is_checked_and_waits_for_the_next_start(
    actions: SettingsActions, services: Services, uploads: Path, tmp_path: Path, notified: list[str]
) -> None:
    services.conversations.stores.stored.create(title="Kept")
    services.conversations.stores.stored.backup(uploads / "backup.sqlite")
    actions.restore_backup(str(uploads / "backup.sqlite"))
    assert notified == ["The backup is ready. Quit Foresight and start it again to restore it."]
    assert not (uploads / "backup.sqlite").exists(), "an upload is read once"
    assert "was restored" in apply_staged(tmp_path)
    with closing(database_in(tmp_path)) as database:
        assert [chat.title for chat in Chats(database).summaries()] == ["Kept"]


def test_a_file_that_is_no_backup_is_refused(
    actions: SettingsActions, uploads: Path, tmp_path: Path, notified: list[str]
) -> None:
    (uploads / "photo.sqlite").write_bytes(b"a photo")
    actions.restore_backup(str(uploads / "photo.sqlite"))
    actions.restore_backup(None)
    assert ["is not a whole backup" in one for one in notified] == [True]
    assert apply_staged(tmp_path) == ""


def test_looks_are_remembered_and_nonsense_is_not(actions: SettingsActions, services: Services) -> None:
    actions.choose_theme(press("theme", "dark"))
    actions.choose_theme(press("theme", "pink"))
    assert services.settings.theme == "dark"


def test_defaults_come_back_and_can_be_undone(actions: SettingsActions, services: Services) -> None:
    chosen = Options(Sampling(0.7), max_new_tokens=77)
    services.choose_options(chosen)
    services.choose_theme("dark")
    before, sentence, *_ = actions.restore()
    assert "Undo" in sentence
    assert (services.settings.options, services.settings.theme) == (Options(), "system")
    actions.undo(before)
    assert (services.settings.options, services.settings.theme) == (chosen, "dark")


def test_there_is_nothing_to_undo_at_first(actions: SettingsActions, services: Services) -> None:
    actions.undo(None)
    assert services.settings == Settings()


def test_quit_ends_the_app(actions: SettingsActions, quit_requested: Event) -> None:
    actions.quit()
    assert quit_requested.is_set()


def test_all_chats_can_be_deleted_private_ones_too(
    actions: SettingsActions, services: Services, notified: list[str], tmp_path: Path
) -> None:
    for is_private in (False, True):
        services.conversations.start(
            NewChat(ChatVersion(), services.asked(Options()), "My secret", ChatSettings(), is_private)
        )
    upload = uploads_dir(tmp_path) / "some" / "chats.json"
    upload.parent.mkdir(parents=True)
    upload.write_text("My secret", encoding="utf-8")
    assert len(services.conversations.stores.summaries()) == 2
    assert str(tmp_path) in actions.delete_chats()[0]
    assert services.conversations.stores.summaries() == ()
    assert notified == ["All chats were deleted."]
    assert all(b"My secret" not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
