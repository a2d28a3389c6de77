"""Tools in a chat as a person meets them: chosen beside the message box, asked for, allowed, folded."""

import pytest

from app.settings import ToolSettings
from app.ui.frame.services import Services
from app.values.tools import Tool, ToolServer
from tests.accessibility import grave_by_day_and_by_night
from tests.fakes import FakeToolServers, ScriptedEngine
from tests.page_driver import PageDriver
from tests.support.waiting import until

WEATHER = Tool("Weather", "weather", "The weather of a city.")
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'


@pytest.fixture
def servers(services: Services) -> FakeToolServers:
    servers: FakeToolServers = services.conversations.tools.servers  # type: ignore[assignment]
    servers.listed = (WEATHER,)
    services.choose(tools=ToolSettings((ToolServer("Weather", ("x",)),)))
    services.conversations.tools._settings = lambda: services.settings.tools
    return servers


@pytest.mark.browser
def test_a_call_is_asked_for_allowed_and_folded_even_after_a_reload_and_continued_after_a_stop(
    servers: FakeToolServers, page_driver: PageDriver, engine: ScriptedEngine
) -> None:
    page = page_driver.page
    page.click(".collection-picker > .open")
    page.click("[data-do=choose-tools]")
    page.wait_for_selector(".collection-picker.on >> text=Tools: Weather")
    page.keyboard.press("Escape")
    engine.text = f"Let me look.{CALL}"
    page_driver.send("How is the weather in Rome?")
    page.wait_for_selector("section.call.asked >> text=The model wants to call")
    assert "<tool_call>" not in page.inner_text("#live")
    assert grave_by_day_and_by_night(page) == []
    page_driver.reload()
    page.wait_for_selector("section.call.asked")
    engine.text = "It is 12 degrees in Rome."
    page.click("[data-do=allow-once]")
    page.wait_for_selector("#messages details.call >> text=weather")
    page.wait_for_selector("#messages >> text=It is 12 degrees in Rome.")
    until(lambda: servers.calls == [("weather", '{"city": "Rome"}')])
    page.click("#messages details.call summary")
    assert "It is 12 degrees." in page.inner_text("#messages details.call")
    assert grave_by_day_and_by_night(page) == []

    # Stop leaves a call that can be continued.
    engine.text = CALL
    page_driver.send("How is the weather in Rome?")
    page.wait_for_selector("section.call.asked")
    page.click("#stop")
    page.wait_for_selector("#messages details.call >> text=not answered")
    engine.text = "I do not know."
    page.click("#messages [data-do=continue]")
    page.click("[data-do=refuse-call]")
    page.wait_for_selector("#messages >> text=I do not know.")
    assert len(servers.calls) == 1, "of the first message"
