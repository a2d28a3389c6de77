"""The page in a real Chromium, with an engine that says what it is told. tests/test_app_in_browser.py
does the same with the real app."""

from math import inf
from typing import Any

import pytest

from app.ui import Running, Services
from app.values.messages import EngineStatus
from tests.fakes import ScriptedEngine
from tests.page_driver import LAPTOP, LAST, PageDriver
from tests.support.waiting import until

pytestmark = pytest.mark.browser

LONG = "and so it goes, word after word, " * 150
LONGER = "before => document.querySelector('#live').innerText.trim().length > before.length"
WIDE_TABLE = "\n".join(["| unbroken " * 12 + "|", "|---" * 12 + "|", "| unbroken " * 12 + "|"])
WIDE = f"{LONG}{'x' * 300}\n\n{WIDE_TABLE}"
FETCH_OUTSIDE = """new Promise(done => {
    const image = new Image();
    image.onerror = () => done("blocked");
    image.src = "http://127.0.0.2/x.png";
})"""
FETCHING = 'See ![this](http://evil.example/a.png) and <img src="http://evil.example/b.png"> now.'


def test_the_reply_streams_and_the_numbers_move(person: PageDriver, engine: ScriptedEngine) -> None:
    engine.text, engine.step_limit = "one two three four five six seven " * 150, 2
    person.send("Count, please")
    for engine.step_limit in (4, 6, 8):
        before = person.text("#live")
        person.page.wait_for_function(LONGER, arg=before)
        assert person.text("#live").startswith(before)
    engine.step_limit = inf
    assert person.wait_for_reply() == engine.text.strip()
    assert float(person.text("#tokens-per-step")) > 1
    assert person.page.locator(".step-bars path").count() > 2
    assert person.page.input_value("#message textarea") == ""


def test_a_page_reloaded_in_mid_reply_follows_it_and_stops_it_with_its_text(
    person: PageDriver, engine: ScriptedEngine
) -> None:
    engine.text, engine.step_limit = LONG, 8
    person.send("Talk")
    person.wait_for_text()
    person.reload()
    person.wait_for_text()
    assert "Talk" in person.text("#messages")
    before, engine.step_limit = person.text("#live"), 16
    person.page.wait_for_function(LONGER, arg=before)
    person.page.click("#stop")
    assert person.wait_for_reply().startswith("and so it goes")
    assert "Stopped" in person.text(f"{LAST} .ending")


@pytest.mark.thorough
def test_shift_enter_starts_a_new_line(person: PageDriver, engine: ScriptedEngine) -> None:
    person.page.fill("#message textarea", "one")
    person.page.press("#message textarea", "Shift+Enter")
    person.page.keyboard.type("two")
    person.page.keyboard.press("Enter")
    person.wait_for_reply()
    assert engine.requests[0].prompt[-1].content == "one\ntwo"  # type: ignore[union-attr]


@pytest.mark.thorough
def test_a_starter_is_asked_with_one_click_and_a_new_chat_is_empty_again(person: PageDriver) -> None:
    person.page.fill("#message textarea", "half a thought")
    person.page.click("#starters button >> nth=1")
    person.wait_for_reply()
    assert "What can you do?" in person.text("#messages")
    assert person.page.input_value("#message textarea") == "half a thought"
    person.page.click("#new-chat")
    person.page.wait_for_selector("#welcome")
    assert person.page.locator("#messages article").count() == 0


def test_a_wrong_value_is_told_where_it_is_and_the_message_is_sent_with_the_last_valid_one(
    person: PageDriver, engine: ScriptedEngine
) -> None:
    person.open_tab("settings")
    person.page.fill("#max-tokens input", "7")
    person.page.fill("#max-tokens input", "-1")
    person.page.wait_for_selector("#max-tokens input[aria-invalid=true]")
    assert person.text("#max-tokens .fault") == "Max new tokens must be 0 (no limit) or more."
    border = person.page.locator("#max-tokens input").evaluate("(box) => getComputedStyle(box).borderColor")
    words = person.page.locator("#max-tokens .fault").evaluate("(line) => getComputedStyle(line).color")
    assert border == words
    person.send("Send me")
    person.wait_for_reply()
    assert engine.requests[-1].options.max_new_tokens == 7
    person.page.fill("#max-tokens input", "9")
    person.page.wait_for_selector("#max-tokens input[aria-invalid=false]")
    assert person.text("#max-tokens .fault") == ""

    # Beside a slider a wrong number stays, too; a comma is a decimal point.
    box = person.page.locator("#temperature [type=number]")
    for typed, shown, fault in (
        ("999", "999", "Temperature must be from 0 to 100."),
        ("1,5", "1.5", ""),
        ("", "", "Type a number."),
    ):
        box.fill("")
        box.press_sequentially(typed)
        box.press("Tab")
        person.page.wait_for_function(
            """([fault, shown]) => (document.querySelector("#temperature .fault")?.textContent ?? "") === fault
            && document.querySelector("#temperature [type=number]").value === shown""",
            arg=[fault, shown],
        )
    person.ask("Send me again")
    assert engine.requests[-1].options.sampling.temperature == 1.5


def test_an_empty_box_stays_empty_and_an_empty_seed_is_a_new_one_each_time(
    person: PageDriver, engine: ScriptedEngine, services: Services
) -> None:
    person.open_tab("settings")
    person.page.wait_for_function("document.querySelector('#max-tokens input').value === ''")
    person.page.fill("#seed input", "")
    person.page.fill("#temperature input[type=number]", "1")
    until(lambda: services.settings.options.sampling.temperature == 1)
    person.reload()
    person.page.wait_for_function("document.querySelector('#seed input').value === ''")
    assert person.page.get_attribute("#seed input", "placeholder") == "new each time"
    for question in ("One", "Two"):
        person.ask(question)
    first, second = (request.options for request in engine.requests)
    assert first.sampling.seed != second.sampling.seed and 0 not in (
        first.sampling.seed,
        second.sampling.seed,
    )
    assert first.max_new_tokens == 0


@pytest.mark.thorough
def test_options_outlive_the_page(person: PageDriver, services: Services) -> None:
    person.open_tab("settings")
    person.page.fill("#max-tokens input", "99")
    person.open_tab("live")
    person.page.click("#lookahead input")
    until(lambda: services.settings.options.decoding.decoder == "plain")
    person.reload()
    person.page.wait_for_function("document.querySelector('#max-tokens input')?.value === '99'")
    assert not person.page.is_checked("#lookahead input")


@pytest.mark.thorough
def test_the_decoder_and_its_sizes_are_chosen_and_outlive_the_page(
    person: PageDriver, engine: ScriptedEngine, services: Services
) -> None:
    person.page.click("#to-settings")
    person.page.click("#settings-nav [data-section=advanced]")
    person.page.fill("#rows input[type=number]", "48")
    person.page.press("#rows input[type=number]", "Tab")
    person.page.click("#decoder input")
    person.page.click("[role=option] >> text=Prompt lookup")
    person.page.click("#same-text input")
    until(lambda: not services.settings.options.decoding.same_text)
    person.page.click("#to-chat")
    person.send("Hi")
    person.wait_for_reply()
    person.reload()
    assert person.page.is_checked("#lookahead input")
    person.page.click("#to-settings")
    person.page.wait_for_function("document.querySelector('#decoder input')?.value === 'Prompt lookup'")
    asked = engine.requests[0].options.decoding
    assert (asked.decoder, asked.rows, asked.same_text) == ("prompt-lookup", 48, False)
    assert not person.page.is_checked("#same-text input")


@pytest.mark.thorough
def test_code_without_a_fence_keeps_its_indentation(person: PageDriver, engine: ScriptedEngine) -> None:
    engine.text = "def f(x):\n    if x:\n        return x"
    person.send("Write code")
    assert person.wait_for_reply() == engine.text


def test_nothing_in_a_reply_makes_the_page_fetch_from_outside(
    person: PageDriver, engine: ScriptedEngine
) -> None:
    engine.text, engine.step_limit = FETCHING, 2
    person.send("Show me")
    person.wait_for_text()
    engine.step_limit = inf
    assert "<img src=" in person.wait_for_reply()
    assert person.page.locator("#thread img").count() == 0

    # The policy blocks what formatting would let through.
    reached: list[str] = []
    person.page.on("requestfinished", lambda request: reached.append(request.url))
    assert person.page.evaluate(FETCH_OUTSIDE) == "blocked"
    assert not [url for url in reached if "127.0.0.2" in url]
    assert any("Content Security Policy" in complaint for complaint in person.complaints)
    person.complaints.clear()
    person.foreign.clear()


@pytest.mark.thorough
def test_the_view_that_is_open_is_marked_from_the_first(person: PageDriver) -> None:
    marked = "button[id^=to-][aria-current=page]"
    person.page.wait_for_selector(marked)
    assert person.text(marked) == "Chat"
    person.page.click("#to-models")
    assert person.text(marked).startswith("Models")


def test_light_and_dark_follow_the_system(person: PageDriver) -> None:
    for scheme in ("dark", "light"):
        person.page.emulate_media(color_scheme=scheme)
        person.page.wait_for_function("dark => document.body.matches('.dark') === dark", arg=scheme == "dark")
        assert person.is_dark() == (scheme == "dark")
        drawn = person.page.evaluate("getComputedStyle(thread).colorScheme")
        assert drawn == ("dark" if scheme == "dark" else "normal"), "so are the browser's own scrollbars"


NARROW = {"width": 400, "height": 800}
ZOOMED = {"width": 683, "height": 384}
"""A laptop's window at 200%."""
SCROLLERS = """() => [...document.querySelectorAll("*")].filter(each => each.checkVisibility() &&
    each.scrollHeight > each.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(each).overflowY)
).map(each => each.id)"""

LINES_OF_TABS = """
new Set([...document.querySelectorAll("#top button[id^=to-]")].map(tab => tab.getBoundingClientRect().top)).size
"""


def test_in_a_narrow_window_a_load_does_not_reach_under_the_buttons_beside_it(
    browser: Any, running: Running, engine: ScriptedEngine
) -> None:
    engine.now = EngineStatus("loading", "Trying kernels for this device (30%)")
    with PageDriver(browser, running.url, size=NARROW) as driver:
        cancel = driver.page.locator("[data-do=cancel-load]").bounding_box()
        assert cancel["x"] + cancel["width"] <= driver.page.locator("#toggle-side").bounding_box()["x"]


def has_focus(selector: str) -> str:
    return f"document.querySelector({selector!r}).contains(document.activeElement)"


def test_in_a_narrow_window_each_view_has_one_scrollbar_and_panels_lie_over_the_chat_one_at_a_time(
    browser: Any, running: Running
) -> None:
    with PageDriver(browser, running.url, size=NARROW) as driver:
        page = driver.page
        for size in (ZOOMED, NARROW):
            page.set_viewport_size(size)
            for view in ("models", "documents", "race", "settings", "chat"):
                page.click(f"#to-{view}")
                page.wait_for_selector(f"body[data-view={view}]")
                assert len(page.evaluate(SCROLLERS)) <= 1, view
                assert page.locator("#top").bounding_box()["y"] == 0
                assert page.evaluate(LINES_OF_TABS) == 1, view

        for button, drawer, beside in (("#toggle-side", "#side", 8), ("#open-chats", "#sidebar", 390)):
            assert not page.is_visible(drawer)
            for close in (
                lambda: page.keyboard.press("Escape"),
                lambda x=beside: page.locator("#main").click(position={"x": x, "y": 600}),
            ):
                page.click(button)
                page.wait_for_selector(drawer, state="visible")
                page.wait_for_function(has_focus(drawer))
                assert page.locator("#chat, #top button").evaluate_all("all => all.every(each => each.inert)")
                close()
                page.wait_for_selector(drawer, state="hidden")
                page.wait_for_function(has_focus(button))
        page.click("#open-chats")
        page.wait_for_selector("#sidebar", state="visible")
        page.keyboard.press("Control+.")
        page.wait_for_selector("#side", state="visible")
        page.wait_for_selector("#sidebar", state="hidden")
        page.set_viewport_size(LAPTOP)
        page.wait_for_selector("body[data-over='']")
        assert page.locator("#chat").evaluate("chat => !chat.inert")


def test_the_page_a_menu_and_undo_are_whole_in_a_narrow_window(
    browser: Any, running: Running, engine: ScriptedEngine
) -> None:
    engine.text = WIDE
    with PageDriver(browser, running.url, size=NARROW) as driver:
        page = driver.page
        driver.ask("Talk")
        assert_that_it_fits(driver, NARROW)
        driver.regenerate()
        page.wait_for_selector(f"{LAST} footer >> text=2/2")
        page.set_viewport_size({"width": 340, "height": 800})  # here even a row without Continue is long
        page.click(f"{LAST} footer summary")
        menu = page.locator(f"{LAST} .menu > div").bounding_box()
        assert 0 <= menu["x"] < menu["x"] + menu["width"] <= 340
        assert page.locator(LAST).bounding_box()["x"] > 0, "nothing scrolls sideways"
        page.keyboard.press("Escape")
        page.click("#open-chats")
        driver.do_with_chat("Talk", "delete")
        page.click("#undo [data-do=undo]", timeout=5000)  # the drawer does not cover it
        page.wait_for_selector(".chat-line >> text=Talk")


def assert_that_it_fits(driver: PageDriver, size: dict[str, int]) -> None:
    """Check that the page and an answer with wide parts fit this window."""
    width, height = size["width"], size["height"]
    assert driver.page.evaluate("document.documentElement.scrollWidth") <= width
    box = driver.page.locator("#composer").bounding_box()
    assert 0 < box["x"] < box["x"] + box["width"] <= width, "a wide table scrolls by itself"
    assert 0 < box["y"] < box["y"] + box["height"] <= height
    cell = driver.page.locator(f"{LAST} td >> nth=0").bounding_box()
    assert cell["height"] < 50, "a table scrolls rather than break a word"
    assert driver.page.evaluate("(t => t.scrollHeight - t.scrollTop - t.clientHeight)(thread)") < 48


@pytest.mark.thorough
def test_the_page_fits_a_laptop(browser: Any, running: Running, engine: ScriptedEngine) -> None:
    engine.text = WIDE
    with PageDriver(browser, running.url) as driver:
        driver.ask("Talk")
        assert_that_it_fits(driver, LAPTOP)
