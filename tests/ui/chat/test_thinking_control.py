"""The control for how much the model thinks: it offers what the template has, and its choice is kept."""

import json
from dataclasses import replace
from typing import Any

import pytest

from app.ui import Running, Services
from app.ui.chat.thinking_control import ThinkingActions, thinking_html
from app.values.chat_format import ChatFormat, ReplyFormat, Thinking, ThinkingMode
from app.values.messages import EngineStatus
from tests.accessibility import grave_by_day_and_by_night
from tests.fakes import DEMO, ScriptedEngine
from tests.page_driver import PageDriver
from tests.ui.chat.people import pressed

SWITCH = ChatFormat(
    ReplyFormat("<think>", "</think>", thought_end="</think>"), (ThinkingMode("on"), ThinkingMode("off"))
)
EFFORTS = ChatFormat(modes=(ThinkingMode("medium"), ThinkingMode("low"), ThinkingMode("high")))
ALWAYS = ChatFormat(
    ReplyFormat("<think>", "</think>", thought_end="</think>"), (ThinkingMode("on", opens_thought=True),)
)


@pytest.mark.parametrize(
    ("chat_format", "thinking", "words"),
    [
        (SWITCH, Thinking(), ["Off", "On*", "no limit*", "4,000 tokens"]),
        (SWITCH, Thinking("off", 500), ["Off*", "On"]),
        (SWITCH, Thinking("on", 700), ["On*", "700 tokens*", "no limit"]),
        (EFFORTS, Thinking("max"), ["Low", "Medium", "High*"]),
        (ALWAYS, Thinking(), ["no limit*", "250 tokens"]),
    ],
)
def test_it_offers_the_levels_and_limits_that_the_model_has(
    chat_format: ChatFormat, thinking: Thinking, words: list[str]
) -> None:
    html = thinking_html(chat_format, thinking)
    for word in words:
        selected = " selected" if word.endswith("*") else ""
        assert f"{selected}>{word.rstrip('*')}</option>" in html
    assert html.count("<option") == html.count("</option>")
    assert ("Off" in html) == (chat_format is SWITCH)


def test_a_choice_is_saved_for_the_model_and_used_for_the_next_reply(services: Services) -> None:
    actions, told = ThinkingActions(services, lambda sentence: told.append(sentence)), list[str]()
    actions.choose(pressed("thinking", "level", json.dumps({"level": "low", "budget": "250"})))
    assert services.settings.options.thinking == Thinking("low", 250)
    assert services.settings.thinking == {services.settings.model.name: Thinking("low", 250)}
    actions.choose(pressed("thinking", "budget", json.dumps({"budget": "0"})))
    assert services.asked(services.settings.options).options.thinking == Thinking("low")
    services.restore_options()
    assert services.settings.options.thinking == Thinking("low")
    assert told == []
    actions.choose(pressed("thinking", "level", json.dumps({"level": "often"})))
    assert len(told) == 1


@pytest.mark.browser
def test_it_is_worked_by_keyboard_and_keeps_the_focus(
    browser: Any, running: Running, engine: ScriptedEngine, services: Services
) -> None:
    model = replace(DEMO, chat_format=SWITCH)
    engine.status = lambda: EngineStatus("ready", model=model)  # type: ignore[method-assign]
    with PageDriver(browser, running.url) as person:
        person.page.wait_for_selector(".thinking select[name=level]")
        assert grave_by_day_and_by_night(person.page) == []
        person.page.focus(".thinking select[name=level]")
        person.page.keyboard.press("ArrowUp")
        person.page.wait_for_selector(".thinking select[name=budget]", state="detached")
        assert services.settings.options.thinking.level == "off"
        assert person.page.evaluate("document.activeElement.matches('.thinking select[name=level]')")
        person.page.keyboard.press("ArrowDown")
        person.page.select_option(".thinking select[name=budget]", "500")
        person.page.wait_for_function(
            "document.querySelector('.thinking select[name=budget]').value === '500'"
        )
        person.page.set_viewport_size({"width": 400, "height": 700})
        assert grave_by_day_and_by_night(person.page) == []
        assert person.complaints == []
    assert services.settings.options.thinking == Thinking("on", 500)
