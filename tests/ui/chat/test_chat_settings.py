"""Instructions for one chat, and presets that are instructions with their sampling."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.chats.chats import Chats
from app.conversation import ChatStores, Conversations
from app.database.database import MEMORY, Database
from app.errors import StoreNotUsable
from app.settings import SettingsFile
from app.ui import Services
from app.ui.chat.chat_settings import ChatSettingsActions
from app.ui.chat.state import ChatState
from app.ui.frame.option_controls import OptionValues, to_values
from app.ui.sidebar.view import SidebarActions
from app.values.chat import ChatPreset, ChatSettings
from app.values.logits import Grammar
from app.values.messages import Options, Sampling
from tests.fakes import FakeDocumentSearch, ScriptedEngine, chat_tools
from tests.ui.chat.people import SKIPPED, Visitor, pressed
from tests.ui.conftest import services_like

SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
WARM = Options(Sampling(temperature=0.9, seed=7))


@pytest.fixture
def presets(person: Visitor) -> ChatSettingsActions:
    return ChatSettingsActions(person.services, person.heard.append)


def names(update: Any) -> list[str]:
    return list(update["choices"])


def read(engine: ScriptedEngine) -> list[str]:
    """What the model was given to read last."""
    return [message.content for message in engine.requests[-1].prompt]  # type: ignore[union-attr]


def test_a_chat_that_is_not_begun_begins_with_its_instructions(
    presets: ChatSettingsActions, person: Visitor, engine: ScriptedEngine
) -> None:
    presets.change_system_prompt(person.state, "Be brief.")
    assert person.services.conversations.stores.summaries() == (), "nothing is made of instructions alone"
    person.get("One")
    assert read(engine) == ["Be brief.", "One"]
    assert person.settings == ChatSettings("Be brief.")


def test_new_chats_begin_with_the_default_system_prompt(
    presets: ChatSettingsActions, services: Services, engine: ScriptedEngine
) -> None:
    services.choose_chat_defaults(system="Be brief.")
    state = ChatState(new_settings=services.new_chat_settings)
    person = Visitor(services, state)
    person.actions.new_chat(state)
    assert presets.shown(state)[0] == "Be brief."
    person.get("One")
    assert read(engine) == ["Be brief.", "One"]
    services.choose_chat_defaults(system="Be kind.")
    person.get("Two")
    assert read(engine)[0] == "Be brief.", "a chat keeps its own"


def test_instructions_hold_from_the_next_message_on_and_for_this_chat_alone(
    presets: ChatSettingsActions, person: Visitor, other: Visitor, engine: ScriptedEngine
) -> None:
    person.get("One")
    presets.change_system_prompt(person.state, "Be kind.")
    person.look()
    person.get("Two")
    assert read(engine)[0] == "Be kind."
    other.get("Elsewhere")
    assert read(engine) == ["Elsewhere"]


def test_instructions_that_come_late_belong_to_the_chat_that_was_left(
    presets: ChatSettingsActions, person: Visitor
) -> None:
    settings = person.services.conversations.stores.stored.settings
    person.get("One")
    first = person.state.version.chat
    person.actions.new_chat(person.state)
    presets.shown(person.state)
    person.get("Two")
    presets.change_system_prompt(person.state, "Be ki")
    second = person.state.version.chat
    person.actions.open_chat(person.state, pressed("open", first))
    presets.change_system_prompt(person.state, "Be kind.")
    assert (settings(first).system, settings(second).system) == ("", "Be kind.")
    presets.shown(person.state)
    presets.change_system_prompt(person.state, "Be brief.")
    assert (settings(first).system, settings(second).system) == ("Be brief.", "Be kind.")
    person.actions.new_chat(person.state)
    presets.shown(person.state)
    person.actions.new_private_chat(person.state)
    presets.change_system_prompt(person.state, "For the chat that was left before it began")
    assert person.settings.system == ""


def test_instructions_that_are_as_they_were_change_nothing(
    presets: ChatSettingsActions, person: Visitor
) -> None:
    person.get("One")
    presets.change_system_prompt(person.state, "Be kind.")
    changes = person.services.conversations.stores.changes
    presets.change_system_prompt(person.state, "Be kind.")
    assert person.services.conversations.stores.changes == changes


def test_a_private_chat_keeps_its_instructions_private(presets: ChatSettingsActions, person: Visitor) -> None:
    person.actions.new_private_chat(person.state)
    presets.shown(person.state)
    presets.change_system_prompt(person.state, "Hush.")
    person.get("One")
    assert person.settings.system == "Hush."
    presets.change_system_prompt(person.state, "Hush now.")
    assert person.settings.system == "Hush now."


def test_answers_are_json_for_this_chat_alone_and_however_they_are_asked_for(
    presets: ChatSettingsActions, person: Visitor, other: Visitor, engine: ScriptedEngine
) -> None:
    person.get("One")
    assert "&quot;&quot;" in presets.change_json(person.state, True, SCHEMA)
    person.look()
    person.get("Two")
    answer = person.messages[-1].id
    person.regenerate(answer)
    person.press("continue", person.messages[-1].id)
    person.wait()
    other.get("Elsewhere")
    asked = [request.logits.grammar for request in engine.requests]
    assert asked == [None, *[Grammar("json_schema", SCHEMA)] * 3, None]
    assert person.messages[-1].content.provenance.grammar == asked[1]  # type: ignore[union-attr]
    assert presets.shown(person.state)[:3] == ("", True, SCHEMA)


def test_a_schema_that_is_none_is_told_while_it_is_typed_and_when_it_is_sent(
    presets: ChatSettingsActions, person: Visitor, engine: ScriptedEngine
) -> None:
    assert "not JSON" in presets.change_json(person.state, True, '{"type"')
    assert person.ask("One") == (SKIPPED, "")
    assert "not JSON" in person.heard[0] and engine.requests == []
    assert "not JSON" not in presets.change_json(person.state, False, '{"type"'), "it is not used"
    person.get("One")
    assert engine.requests[0].logits.grammar is None
    assert presets.shown(person.state)[:3] == ("", False, '{"type"')


def test_a_schema_that_replies_cannot_be_held_to_is_told_when_it_is_typed_and_when_it_is_sent(
    presets: ChatSettingsActions, person: Visitor, engine: ScriptedEngine
) -> None:
    engine.grammar_problem = "It is nested too deeply: change it."
    assert engine.grammar_problem in presets.change_json(person.state, True, SCHEMA)
    assert person.ask("One") == (SKIPPED, "")
    assert person.heard == [engine.grammar_problem] and engine.requests == []


def test_opening_a_chat_asks_the_engine_nothing_about_its_schema(
    presets: ChatSettingsActions, person: Visitor, engine: ScriptedEngine
) -> None:
    presets.change_json(person.state, True, SCHEMA)
    person.get("One")
    asked = list(engine.grammars)
    assert presets.shown(person.state)[:3] == ("", True, SCHEMA)
    person.look()
    assert engine.grammars == asked


def test_another_answer_in_another_form_is_not_called_the_same(
    presets: ChatSettingsActions, person: Visitor
) -> None:
    person.get("One")
    answer = person.messages[-1].id
    assert "same" in person.press("regenerate", answer)[1]
    presets.change_json(person.state, True, "")
    person.look()
    assert person.press("regenerate", answer)[1] == ""


def test_boxes_are_filled_anew_when_another_page_changed_the_form(
    presets: ChatSettingsActions, person: Visitor, other: Visitor
) -> None:
    person.get("One")
    other.state.open_chat(person.state.version)
    before, own = other.look().system_prompt, person.look().system_prompt
    presets.change_json(person.state, True, SCHEMA)
    assert other.look().system_prompt != before
    assert person.look().system_prompt == own, "somebody may be typing"


def test_instructions_for_a_chat_that_is_gone_are_told(presets: ChatSettingsActions, person: Visitor) -> None:
    person.get("One")
    person.services.conversations.stores.stored.delete(person.state.version.chat)
    presets.change_system_prompt(person.state, "Be kind.")
    assert "no longer there" in person.heard[0]


def test_a_preset_is_saved_listed_chosen_and_deleted(presets: ChatSettingsActions, person: Visitor) -> None:
    assert names(presets.save_preset(" Editor ", "Edit this.", *to_values(WARM))[0]) == ["Editor"]
    assert names(presets.list_presets()) == ["Editor"]
    system, *controls = presets.apply_preset(person.state, "Editor")
    assert system == "Edit this."
    assert OptionValues(*controls) == to_values(WARM)
    assert person.services.settings.options.sampling == WARM.sampling
    assert person.state.settings == ChatSettings("Edit this.")
    gone = presets.delete_preset("Editor")
    assert names(gone) == [] and gone["value"] is None


def test_a_preset_of_the_same_name_is_replaced(presets: ChatSettingsActions, person: Visitor) -> None:
    presets.save_preset("Editor", "One.", *to_values(WARM))
    assert names(presets.save_preset("Editor", "Two.", *to_values(WARM))[0]) == ["Editor"]
    assert presets.apply_preset(person.state, "Editor")[0] == "Two."
    newest = person.services.deletions.newest()
    assert newest and newest.message == "The preset \u201cEditor\u201d was replaced."
    presets.save_preset("Editor", "Two.", *to_values(WARM))
    assert person.services.deletions.newest() is newest, "nothing is replaced by the same"
    SidebarActions(person.services, person.heard.append).act(person.state, pressed("undo"))
    assert presets.apply_preset(person.state, "Editor")[0] == "One."


def test_a_preset_that_was_deleted_can_be_brought_back(presets: ChatSettingsActions, person: Visitor) -> None:
    presets.save_preset("Editor", "One.", *to_values(WARM))
    presets.delete_preset("Editor")
    SidebarActions(person.services, person.heard.append).act(person.state, pressed("undo"))
    assert names(presets.list_presets()) == ["Editor"]


def test_a_preset_is_taken_by_the_chat_that_is_shown(
    presets: ChatSettingsActions, person: Visitor, engine: ScriptedEngine
) -> None:
    person.get("One")
    presets.save_preset("Editor", "Edit this.", *to_values(WARM))
    presets.apply_preset(person.state, "Editor")
    person.look()
    person.get("Two")
    assert read(engine)[0] == "Edit this."


class UnreadableChats(Chats):
    """A store whose presets another program keeps."""

    def presets(self) -> tuple[ChatPreset, ...]:
        raise StoreNotUsable("Another program holds the file.")


def test_presets_that_cannot_be_read_are_told_and_leave_the_page_as_it_is(
    services: Services, engine: ScriptedEngine, tmp_path: Path
) -> None:
    heard: list[str] = []
    with closing(Database(tmp_path / "busy.sqlite")) as busy, closing(Database(MEMORY)) as memory:
        book = ChatStores(UnreadableChats(busy), Chats(memory))
        talks = Conversations(engine, book, FakeDocumentSearch(), chat_tools())
        held = services_like(services, talks, SettingsFile(tmp_path))
        presets, person = ChatSettingsActions(held, heard.append), Visitor(held)
        assert presets.list_presets() == presets.delete_preset("Editor") == SKIPPED
        assert set(map(str, presets.apply_preset(person.state, "Editor"))) == {str(SKIPPED)}
    assert heard == ["Another program holds the file."] * 3


@pytest.mark.parametrize("name", ["", "  ", None])
def test_a_preset_without_a_name_is_told(presets: ChatSettingsActions, name: str | None) -> None:
    _, done, faults = presets.save_preset(name, "Edit this.", *to_values(WARM))
    assert done == "" and "Type a name for the preset, then save." in faults
    assert names(presets.list_presets()) == []


def test_a_preset_gets_the_last_valid_value_of_a_wrong_box(
    presets: ChatSettingsActions, person: Visitor
) -> None:
    person.services.change_options(lambda _: WARM)
    _, done, _ = presets.save_preset("Editor", "Edit this.", *to_values(WARM)._replace(seed=-1))
    assert "“Editor” is saved." in done
    [saved] = person.services.conversations.stores.stored.presets()
    assert saved.settings.sampling == WARM.sampling


def test_a_preset_holds_also_when_it_cannot_be_remembered(
    presets: ChatSettingsActions, person: Visitor, tmp_path: Path
) -> None:
    presets.save_preset("Editor", "Edit this.", *to_values(WARM))
    (tmp_path / "settings.json").mkdir()  # as good as a full disk: the file cannot be replaced
    assert OptionValues(*presets.apply_preset(person.state, "Editor")[1:]) == to_values(WARM)
    assert "could not be saved" in person.heard[0]


def test_choosing_or_deleting_what_is_not_there_changes_nothing(
    presets: ChatSettingsActions, person: Visitor
) -> None:
    assert all(update == SKIPPED for update in presets.apply_preset(person.state, "Nobody"))
    assert all(update == SKIPPED for update in presets.apply_preset(person.state, None))
    assert names(presets.delete_preset(None)) == []
    assert person.heard == []
