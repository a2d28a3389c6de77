"""The settings in a real Chromium, with an engine and models that are scripts."""

from collections.abc import Iterator
from typing import Any

import pytest

from app.ui import Running
from tests.fakes import ScriptedEngine
from tests.page_driver import PageDriver

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture
def person(browser: Any, running: Running) -> Iterator[PageDriver]:
    """A person in front of the settings. Whatever happens, the page stays quiet and asks nobody else."""
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


def test_sliders_show_what_they_cost_while_they_move(person: PageDriver) -> None:
    choose_lookahead(person)
    assert person.text("#cost b") == "30 rows per step"
    person.page.fill("#window input[type=number]", "15")
    person.page.wait_for_function("document.querySelector('#cost b').innerText === '60 rows per step'")


def test_a_preset_moves_the_sliders_and_counts_for_the_next_reply(
    person: PageDriver, engine: ScriptedEngine
) -> None:
    choose_lookahead(person)
    person.page.click("#advised-sizes button >> nth=0")
    person.page.wait_for_function("document.querySelector('#guesses input[type=number]').value === '15'")
    person.page.click("#to-chat")
    person.send("Hi")
    person.wait_for_reply()
    asked = engine.requests[0].options.decoding
    assert (asked.decoder, asked.window, asked.ngram, asked.guesses) == ("lookahead", 15, 5, 15)


def test_only_the_sizes_that_a_decoder_uses_are_shown(person: PageDriver) -> None:
    assert person.page.is_visible("#rows") and not person.page.is_visible("#window")
    choose_lookahead(person)
    assert person.page.is_visible("#window") and not person.page.is_visible("#rows")


def test_looks_change_at_once_and_outlive_the_page(person: PageDriver) -> None:
    person.page.click("#theme label >> text=Dark")
    assert person.is_dark()
    person.page.wait_for_timeout(300)
    person.reload()
    assert person.is_dark()
    person.page.click("#to-settings")
    person.page.wait_for_selector("#theme [data-theme=dark]")
    person.page.click("#theme label >> text=Light")
    assert not person.is_dark()


def test_defaults_come_back_and_can_be_undone(person: PageDriver) -> None:
    choose_lookahead(person)
    person.page.wait_for_timeout(300)
    person.page.click("#restore")
    person.page.wait_for_selector("#restored button")
    person.page.wait_for_selector("#cost [data-decoder=auto]")
    person.page.click("#restored button")
    person.page.wait_for_selector("#cost [data-decoder=lookahead]")


def test_the_self_check_of_the_page_is_good(person: PageDriver) -> None:
    person.page.click("#self-check")
    person.page.wait_for_selector("#checks li")
    assert person.page.locator("#checks i.bad").count() == 0
    assert person.page.locator("#checks i.good").count() == 8


def test_all_chats_are_deleted_once_that_is_confirmed(person: PageDriver) -> None:
    person.page.click("#to-chat")
    person.send("Hello")
    person.wait_for_reply()
    person.page.click("#to-settings")
    person.page.click("#data-folder summary")
    person.page.click("#data-folder [data-do=delete-chats]")
    person.page.click("#to-chat")
    person.page.wait_for_selector("#welcome")
    assert person.page.locator(".chat-line").count() == 0


def test_quit_ends_the_app_and_says_so(person: PageDriver, running: Running) -> None:
    person.page.click("#quit")
    assert running.endpoint.quit_requested.wait(5)
    assert "ended" in person.page.evaluate("getComputedStyle(document.body, '::after').content")


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (400, 800)])
def test_the_view_fits_its_window(browser: Any, running: Running, width: int, height: int) -> None:
    with PageDriver(browser, running.url, size={"width": width, "height": height}) as driver:
        driver.page.click("#to-settings")
        driver.page.wait_for_selector("#facts h4")
        assert driver.page.evaluate("document.documentElement.scrollWidth") <= width
