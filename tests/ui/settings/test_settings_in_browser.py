"""The Settings view in a real Chromium, with a scripted engine and scripted models."""

from collections.abc import Iterator
from typing import Any

import pytest

from app.ui import Running
from tests.fakes import ScriptedEngine
from tests.page_driver import PageDriver

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture
def person(browser: Any, running: Running) -> Iterator[PageDriver]:
    """A person in the Settings view. The page logs no errors and sends no requests elsewhere."""
    with PageDriver(browser, running.url) as driver:
        driver.page.click("#to-settings")
        driver.page.wait_for_selector("#facts h4")
        yield driver
        assert driver.complaints == []
        assert driver.foreign == []


def choose_lookahead(person: PageDriver) -> None:
    person.page.click("#decoder input")
    person.page.click("[role=option] >> text=Lookahead with")
    person.page.wait_for_selector("#cost [data-decoder=lookahead]")


def test_decoder_sizes_show_their_cost_and_are_used_for_the_next_reply(
    person: PageDriver, engine: ScriptedEngine
) -> None:
    assert person.page.is_visible("#rows") and not person.page.is_visible("#window")
    choose_lookahead(person)
    assert person.page.is_visible("#window") and not person.page.is_visible("#rows")
    assert person.text("#cost b") == "30 rows per step"
    person.page.fill("#window input[type=number]", "15")
    person.page.wait_for_function("document.querySelector('#cost b').innerText === '60 rows per step'")
    person.page.click("#advised-sizes button >> nth=0")
    person.page.wait_for_function("document.querySelector('#guesses input[type=number]').value === '15'")
    person.page.click("#to-chat")
    person.send("Hi")
    person.wait_for_reply()
    asked = engine.requests[0].options.decoding
    assert (asked.decoder, asked.window, asked.ngram, asked.guesses) == ("lookahead", 15, 5, 15)

    person.page.click("#to-settings")
    person.page.click("#restore")
    person.page.wait_for_selector("#cost [data-decoder=auto]")
    person.page.click("#restored button")
    person.page.wait_for_selector("#cost [data-decoder=lookahead]")


@pytest.mark.thorough
def test_the_appearance_changes_at_once_and_survives_a_reload(person: PageDriver) -> None:
    person.page.click("#theme label >> text=Dark")
    assert person.is_dark()
    person.page.wait_for_timeout(300)
    person.page.reload()
    person.page.wait_for_selector("#theme [data-theme=dark]")
    assert person.is_dark()
    person.page.click("#theme label >> text=Light")
    assert not person.is_dark()


@pytest.mark.thorough
def test_the_self_check_passes_chats_are_deleted_and_the_app_quits(
    person: PageDriver, running: Running
) -> None:
    person.page.click("#self-check")
    person.page.wait_for_selector("#checks li")
    assert person.page.locator("#checks i.failed").count() == 0
    assert person.page.locator("#checks i.passed").count() == 6

    person.page.click("#to-chat")
    person.send("Hello")
    person.wait_for_reply()
    person.page.click("#to-settings")
    person.page.click("#delete-chats summary")
    person.page.click("#delete-chats [data-do=delete-chats]")
    person.page.click("#to-chat")
    person.page.wait_for_selector("#welcome")
    assert person.page.locator(".chat-line").count() == 0

    person.page.click("#to-settings")
    person.page.click("#quit")
    assert running.endpoint.quit_requested.wait(5)
    assert "ended" in person.page.evaluate("getComputedStyle(document.body, '::after').content")


@pytest.mark.thorough
@pytest.mark.parametrize("width", [400, pytest.param(1366, marks=pytest.mark.thorough)])
def test_the_view_fits_its_window(browser: Any, running: Running, width: int) -> None:
    with PageDriver(browser, running.url, size={"width": width, "height": 800}) as driver:
        driver.page.click("#to-settings")
        driver.page.wait_for_selector("#facts h4")
        assert driver.page.evaluate("document.documentElement.scrollWidth") <= width
