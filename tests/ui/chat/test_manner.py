"""Instructions for one chat, and presets that are instructions with their sampling."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.chat_messages import ChatPreset, ChatSettings
from app.chats import Chats
from app.conversation import ChatStores, Conversations
from app.database import MEMORY, Database
from app.errors import StoreNotUsable
from app.messages import Options, Sampling
from app.settings import Settings, SettingsFile
from app.ui import Services
from app.ui.chat.manner import MannerActions
from app.ui.controls import OptionControls, show_options
from tests.fake_models import ScriptedModels
from tests.fakes import FakeDocumentSearch, ScriptedEngine
from tests.ui.chat.people import SKIPPED, Visitor

WARM = Options(Sampling(temperature=0.9, seed=7))


@pytest.fixture
def manner(person: Visitor) -> MannerActions:
    return MannerActions(person.services, person.heard.append)


def names(update: Any) -> list[str]:
    return list(update["choices"])


def read(engine: ScriptedEngine) -> list[str]:
    """What the model was given to read last."""
    return [message.content for message in engine.requests[-1].prompt]  # type: ignore[union-attr]


def test_a_chat_that_is_not_begun_begins_with_its_instructions(
    manner: MannerActions, person: Visitor, engine: ScriptedEngine
) -> None:
    manner.choose_system(person.seat, "Be brief.")
    assert person.services.conversations.stores.summaries() == (), "nothing is made of instructions alone"
    person.get("One")
    assert read(engine) == ["Be brief.", "One"]
    assert person.look().manner == ChatSettings("Be brief.")


def test_instructions_hold_from_the_next_message_on_and_for_this_chat_alone(
    manner: MannerActions, person: Visitor, other: Visitor, engine: ScriptedEngine
) -> None:
    person.get("One")
    manner.choose_system(person.seat, "Be kind.")
    person.look()
    person.get("Two")
    assert read(engine)[0] == "Be kind."
    other.get("Elsewhere")
    assert read(engine) == ["Elsewhere"]


def test_instructions_that_are_as_they_were_change_nothing(manner: MannerActions, person: Visitor) -> None:
    person.get("One")
    manner.choose_system(person.seat, "Be kind.")
    changes = person.services.conversations.stores.changes
    manner.choose_system(person.seat, "Be kind.")
    assert person.services.conversations.stores.changes == changes


def test_a_private_chat_keeps_its_instructions_private(manner: MannerActions, person: Visitor) -> None:
    person.actions.begin_private(person.seat)
    manner.choose_system(person.seat, "Hush.")
    person.get("One")
    assert person.look().manner.system == "Hush."
    manner.choose_system(person.seat, "Hush now.")
    assert person.look().manner.system == "Hush now."


def test_instructions_for_a_chat_that_is_gone_are_told(manner: MannerActions, person: Visitor) -> None:
    person.get("One")
    person.services.conversations.stores.stored.delete(person.seat.place.chat)
    manner.choose_system(person.seat, "Be kind.")
    assert "no longer there" in person.heard[0]


def test_a_preset_is_saved_listed_chosen_and_deleted(manner: MannerActions, person: Visitor) -> None:
    assert names(manner.save(" Editor ", "Edit this.", *show_options(WARM))) == ["Editor"]
    assert names(manner.names()) == ["Editor"]
    system, *controls = manner.choose(person.seat, "Editor")
    assert system == "Edit this."
    assert OptionControls(*controls) == show_options(WARM)
    assert person.services.settings.options.sampling == WARM.sampling
    assert person.seat.manner == ChatSettings("Edit this.")
    gone = manner.delete("Editor")
    assert names(gone) == [] and gone["value"] is None


def test_a_preset_of_the_same_name_is_replaced(manner: MannerActions, person: Visitor) -> None:
    manner.save("Editor", "One.", *show_options(WARM))
    assert names(manner.save("Editor", "Two.", *show_options(WARM))) == ["Editor"]
    assert manner.choose(person.seat, "Editor")[0] == "Two."


def test_a_preset_is_taken_by_the_chat_that_is_shown(
    manner: MannerActions, person: Visitor, engine: ScriptedEngine
) -> None:
    person.get("One")
    manner.save("Editor", "Edit this.", *show_options(WARM))
    manner.choose(person.seat, "Editor")
    person.look()
    person.get("Two")
    assert read(engine)[0] == "Edit this."


class UnreadableChats(Chats):
    """A store whose presets another program keeps."""

    def presets(self) -> tuple[ChatPreset, ...]:
        raise StoreNotUsable("Another program holds the file.")


def test_presets_that_cannot_be_read_are_told_and_leave_the_page_as_it_is(
    services: Services, engine: ScriptedEngine, models: ScriptedModels, tmp_path: Path
) -> None:
    heard: list[str] = []
    with closing(Database(tmp_path / "busy.sqlite")) as busy, closing(Database(MEMORY)) as memory:
        book = ChatStores(UnreadableChats(busy), Chats(memory))
        talks = Conversations(engine, book, FakeDocumentSearch())
        held = Services(
            talks, engine, models, services.race, services.documents, SettingsFile(tmp_path), Settings()
        )
        manner, person = MannerActions(held, heard.append), Visitor(held)
        assert manner.names() == manner.delete("Editor") == SKIPPED
        assert set(map(str, manner.choose(person.seat, "Editor"))) == {str(SKIPPED)}
    assert heard == ["Another program holds the file."] * 3


@pytest.mark.parametrize("name", ["", "  ", None])
def test_a_preset_without_a_name_is_told(manner: MannerActions, person: Visitor, name: str | None) -> None:
    manner.save(name, "Edit this.", *show_options(WARM))
    assert person.heard == ["A preset needs a name: type one into its box, then save."]
    assert names(manner.names()) == []


def test_a_preset_with_an_impossible_value_is_told(manner: MannerActions, person: Visitor) -> None:
    manner.save("Editor", "Edit this.", *show_options(WARM)._replace(seed=-1))
    assert "Seed must be" in person.heard[0]


def test_a_preset_holds_also_when_it_cannot_be_remembered(
    manner: MannerActions, person: Visitor, tmp_path: Path
) -> None:
    manner.save("Editor", "Edit this.", *show_options(WARM))
    (tmp_path / "settings.json").mkdir()  # as good as a full disk: the file cannot be replaced
    assert OptionControls(*manner.choose(person.seat, "Editor")[1:]) == show_options(WARM)
    assert "could not be saved" in person.heard[0]


def test_choosing_or_deleting_what_is_not_there_changes_nothing(
    manner: MannerActions, person: Visitor
) -> None:
    assert all(update == SKIPPED for update in manner.choose(person.seat, "Nobody"))
    assert all(update == SKIPPED for update in manner.choose(person.seat, None))
    assert names(manner.delete(None)) == []
    assert person.heard == []
