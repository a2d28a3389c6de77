"""Every view in every state, by axe-core, in light and in dark: it finds nothing."""

from math import inf
from typing import Any

import pytest

from app.ui import Running
from tests.accessibility import grave_by_day_and_by_night
from tests.fakes import ScriptedEngine
from tests.page_driver import LAST, PageDriver

pytestmark = pytest.mark.browser

RICH = """<think>
Let me see.
</think>

## A heading

Some *words*, `code`, a [link](http://127.0.0.1/) and $x^2$.

```python
def add(a, b):  # both
    return "sum", a + b, None
```

> quoted

| a | b |
|---|---|
| 1 | 2 |

1. one
2. two
"""


def test_the_chat_in_all_its_states(person: PageDriver, engine: ScriptedEngine) -> None:
    assert grave_by_day_and_by_night(person.page) == []
    engine.text = RICH
    person.send("Show **everything**")
    person.wait_for_reply()
    person.press("Details")
    assert grave_by_day_and_by_night(person.page) == []
    person.press("Colour by origin")
    person.page.wait_for_selector(".coloured")
    person.page.hover(".message.user")
    person.page.click(".message.user footer [data-show=editor]")
    person.page.click("#fewer-numbers")
    person.page.click(f"{LAST} footer .menu summary")
    assert grave_by_day_and_by_night(person.page) == []
    person.open_tab("settings")
    person.page.click("#reply-options .label-wrap")
    assert grave_by_day_and_by_night(person.page) == []
    person.page.click("#model-button")
    person.page.wait_for_selector(".picker .row")
    assert grave_by_day_and_by_night(person.page) == []


def test_a_toast(person: PageDriver) -> None:
    person.page.evaluate("location.hash = '#/chat/99'")
    person.page.wait_for_selector(".toast-body >> text=no longer")
    assert person.page.locator(".toast-body :is([tabindex], button)").count() == 1, "one stop closes it"
    assert grave_by_day_and_by_night(person.page) == []


def test_high_contrast_shows_whether_a_switch_is_on(person: PageDriver) -> None:
    colour = "getComputedStyle(document.querySelector('#lookahead input')).backgroundColor"
    person.page.emulate_media(forced_colors="active", reduced_motion="reduce")
    on = person.page.evaluate(colour)
    person.page.click("#lookahead input")
    person.page.wait_for_selector("#lookahead input:not(:checked)")
    assert person.page.evaluate(colour) != on


@pytest.mark.thorough
def test_the_chat_while_it_is_written_and_when_it_failed(person: PageDriver, engine: ScriptedEngine) -> None:
    engine.text, engine.step_limit, engine.failure = "word " * 2000, 8, "Memory ran out."
    person.send("Talk")
    person.wait_for_text()
    assert grave_by_day_and_by_night(person.page) == []
    person.page.keyboard.press("Escape")
    person.wait_for_reply()
    engine.text, engine.step_limit = "word", inf
    person.press("Regenerate")
    person.page.wait_for_selector(".ending.failed")
    assert grave_by_day_and_by_night(person.page) == []


@pytest.mark.thorough
def test_the_list_of_chats(person: PageDriver) -> None:
    person.send("First question")
    person.wait_for_reply()
    person.page.click("#new-private-chat")
    person.page.wait_for_selector("#private-note")
    person.send("Second question")
    person.wait_for_reply()
    person.page.hover(".chat-line >> nth=0")
    person.page.click(".chat-line summary >> nth=0")
    assert grave_by_day_and_by_night(person.page) == []
    person.page.click(".chat-line [data-do=delete] >> nth=0")
    person.page.wait_for_selector(".undo")
    assert grave_by_day_and_by_night(person.page) == []
    person.page.fill("#chat-search input, #chat-search textarea", "first")
    person.page.wait_for_selector("#chats mark")
    assert grave_by_day_and_by_night(person.page) == []


@pytest.mark.thorough
def test_a_chat_that_outgrew_its_context(person: PageDriver, engine: ScriptedEngine) -> None:
    engine.words.context = 24
    person.open_tab("settings")
    person.page.fill("#max-tokens input", "30")
    person.send("one two three four five")
    person.wait_for_reply()
    person.send("six seven eight nine ten")
    person.page.wait_for_selector(".question")
    assert grave_by_day_and_by_night(person.page) == []


@pytest.mark.thorough
def test_the_xray(person: PageDriver) -> None:
    person.send("Hi")
    person.wait_for_reply()
    person.page.click("#open-xray")
    person.page.wait_for_selector("#xray-picture .xray, #xray-picture .nothing")
    assert grave_by_day_and_by_night(person.page) == []


@pytest.mark.parametrize("view", ["models", pytest.param("documents", marks=pytest.mark.thorough)])
def test_the_other_views(person: PageDriver, view: str) -> None:
    person.page.click(f"#to-{view}")
    person.page.mouse.move(0, 0)
    ready = {"models": "#installed .line", "documents": "#document-list .empty"}
    person.page.wait_for_selector(ready[view])
    if view == "models":
        person.page.click("#installed [data-more]")
        person.page.click("#installed [data-do=ask-load]")
        person.page.wait_for_selector("#load-dialog .question")
        assert grave_by_day_and_by_night(person.page) == []
        person.page.keyboard.press("Escape")
        person.page.wait_for_selector("#load-dialog .question", state="detached")
        assert grave_by_day_and_by_night(person.page) == []
        person.page.click("#models-tab-discover")
        person.page.click("#catalogue [data-more]")
    assert grave_by_day_and_by_night(person.page) == []


@pytest.mark.thorough
@pytest.mark.parametrize("size", [{"width": 400, "height": 800}, {"width": 683, "height": 384}])
@pytest.mark.parametrize(("button", "drawer"), [("#open-chats", "#sidebar"), ("#toggle-side", "#side")])
def test_the_page_in_a_narrow_window(
    browser: Any, running: Running, size: dict[str, int], button: str, drawer: str
) -> None:
    with PageDriver(browser, running.url, size=size) as driver:
        assert grave_by_day_and_by_night(driver.page) == []
        driver.page.click(button)
        driver.page.wait_for_selector(drawer, state="visible")
        assert grave_by_day_and_by_night(driver.page) == []
