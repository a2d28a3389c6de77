"""What a chat's tools cost, and what is told of a model that knows none."""

from dataclasses import replace

from app.settings import ToolSettings
from app.ui.chat.tools_control import DESCRIBED, TOOLS_NOT_SUPPORTED, tools_note
from app.ui.frame.services import Services
from app.values.chat_format import HERMES, ChatFormat, ReplyFormat
from app.values.messages import ModelChoice
from app.values.server import remote_info
from app.values.tools import ServerText, Tool, ToolServer
from tests.fakes import FakeToolServers, ScriptedEngine
from tests.ui.chat.people import Visitor, pressed


def test_the_note_on_tools_is_drawn_when_the_model_is_loaded_after_they_were_chosen(
    person: Visitor, engine: ScriptedEngine
) -> None:
    tools = person.services.conversations.tools
    servers: FakeToolServers = tools.servers  # type: ignore[assignment]
    servers.listed = (Tool("Weather", "weather"),)
    tools._settings = lambda: ToolSettings((ToolServer("Weather", ("x",)),))
    loaded = engine.now
    engine.now = replace(loaded, model=None)
    person.actions.choose_source(person.state, pressed("choose-tools", "Weather"))
    assert "of each prompt" not in person.look().picker
    engine.now = loaded
    assert "of each prompt" in person.look().picker


def test_a_prompt_is_inserted_although_a_resource_has_the_same_name(person: Visitor) -> None:
    tools = person.services.conversations.tools
    servers: FakeToolServers = tools.servers  # type: ignore[assignment]
    servers.texts = (ServerText("Notes", "today", uri="notes://today"), ServerText("Notes", "today"))
    tools._settings = lambda: ToolSettings((ToolServer("Notes", ("x",)),))
    person.actions.choose_source(person.state, pressed("use-text", "Notes", "today"))
    assert person.state.box_changes[-1].given == "The text of today."


def test_the_cost_of_tools_is_told_and_whether_the_models_template_has_a_place_for_them(
    services: Services, engine: ScriptedEngine
) -> None:
    tools = services.conversations.tools
    servers: FakeToolServers = tools.servers  # type: ignore[assignment]
    servers.listed = (Tool("Weather", "weather", "The weather of a city."),)
    tools._settings = lambda: ToolSettings((ToolServer("Weather", ("x",)),))
    assert tools_note(services, ()) == ""
    note = tools_note(services, ("Weather",))
    assert note.startswith("These tools take ") and note.endswith(
        f" tokens of each prompt. {TOOLS_NOT_SUPPORTED}"
    )
    native = ChatFormat(ReplyFormat(calls=replace(HERMES, shows_tools=True)))
    assert engine.now.model
    engine.now = replace(engine.now, model=replace(engine.now.model, chat_format=native))
    note = tools_note(services, ("Weather",))
    assert note.startswith("These tools take ") and note.endswith(" tokens of each prompt.")
    engine.now = replace(engine.now, model=remote_info(ModelChoice("there", server="http://127.0.0.1:9/v1")))
    assert tools_note(services, ("Weather",)).endswith(DESCRIBED), "nothing is known of a server's template"
