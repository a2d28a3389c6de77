"""Pages come, go and get lost; the next one works, and a lost one comes back by itself."""

import logging
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from app.ui import AppContext, Running, Services, serve
from app.ui.settings.self_check import own_sockets
from tests.fakes import ScriptedEngine
from tests.page_driver import PageDriver
from tests.support.app_process import REQUESTS
from tests.support.soak_parts import kill_tab
from tests.support.waiting import until

pytestmark = pytest.mark.browser
SECONDS = 300.0
LOST = "#connection"
NOTING = """() => {
  window.said = [];
  const note = () => said.push(document.querySelector("#connection")?.textContent ?? "");
  new MutationObserver(note).observe(document.body, { childList: true, subtree: true });
}"""
"""Has the page note all that is said of its connection."""


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    """One profile, whose tabs share their connections."""
    opened = browser.new_context()
    opened.set_default_timeout(60_000)
    yield opened
    opened.close()


def tab(context: Any, running: Running) -> Any:
    page = context.new_page()
    page.goto(running.url)
    page.wait_for_selector("#status .status")
    return page


def connections(running: Running) -> int:
    """Connections that pages hold to the server, which lives in this process."""
    return sum(one.port == running.port and not one.is_listening for one in own_sockets() or ())


def ask(page: Any, words: str = "Hello?") -> None:
    page.fill("#message textarea", words)
    page.press("#message textarea", "Enter")
    page.wait_for_selector("#messages article.assistant.last footer")


def test_the_next_page_works_after_many_reloads(
    context: Any, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, REQUESTS)
    page = tab(context, running)
    for number in range(8):
        # Not `reload`: Chromium refuses one between the commit of the last and its page's first frame.
        page.goto(page.url.split("#")[0], wait_until="commit" if number % 2 else "load")
    page.wait_for_selector("#status .status")
    assert caplog.messages.count("GET '/'") == 9, "a load and eight reloads, by the server's own log"
    ask(page)


@pytest.mark.thorough
def test_more_tabs_than_a_browser_has_connections_work_at_once(context: Any, running: Running) -> None:
    tabs = [tab(context, running) for _ in range(12)]
    ask(tabs[0])
    ask(tabs[-1])
    for page in tabs:
        page.close()
    until(lambda: connections(running) == 0)


@pytest.mark.thorough
def test_nothing_is_left_of_a_tab_that_was_closed_or_killed(context: Any, running: Running) -> None:
    for is_killed in (False, True):
        page, other = tab(context, running), tab(context, running)
        until(lambda: connections(running) >= 2)
        if is_killed:
            kill_tab(page)
        page.close()
        other.close()
        until(lambda: connections(running) == 0)


@pytest.mark.thorough
def test_a_browser_that_slept_goes_on_by_itself(launch: Any, running: Running) -> None:
    chromium = launch()
    page = tab(chromium.new_context(), running)
    page.evaluate(NOTING)
    found = chromium.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    for one in found:
        os.kill(one["id"], signal.SIGSTOP)
    # The server pings, gets no answer, and lets the page go.
    until(lambda: connections(running) == 0)
    for one in found:
        os.kill(one["id"], signal.SIGCONT)
    ask(page)
    said = page.evaluate("said")
    assert any("is lost" in one for one in said) and "Connected again." in said
    chromium.close()


def test_a_lost_page_says_so_and_what_to_do_once_the_app_was_started_again(
    browser: Any, services: Services, app_context: AppContext
) -> None:
    first = serve(services, app_context, port=0, open_browser=False)
    with PageDriver(browser, first.url) as person:
        first.close()
        person.page.wait_for_selector(f"{LOST} >> text=Reconnecting")
        person.send("Is anybody there?")
        toast = person.page.locator(".toast-body")
        toast.wait_for(state="attached")
        assert not toast.is_visible(), "one message says it"
        second = serve(services, app_context, port=first.port, open_browser=False)
        try:
            person.page.wait_for_selector(f"{LOST} >> text=no longer has its key")
        finally:
            second.close()


def test_a_page_that_the_app_does_not_know_offers_to_reload_and_keeps_what_is_typed(
    browser: Any, services: Services, app_context: AppContext, engine: ScriptedEngine
) -> None:
    engine.text = "An answer."
    first = serve(services, app_context, port=0, open_browser=False, has_key=False)
    with PageDriver(browser, first.url) as person:
        person.page.fill("#message textarea", "Typed before.")
        first.close()
        second = serve(services, app_context, port=first.port, open_browser=False, has_key=False)
        try:
            person.page.wait_for_selector(f"{LOST} button >> text=Reload")
            assert person.page.input_value("#message textarea") == "Typed before."
            said, box = (person.page.locator(part).bounding_box() for part in (LOST, "#composer"))
            assert said["y"] + said["height"] < box["y"], "what was typed is to be seen"
            person.page.click(f"{LOST} button")
            person.page.wait_for_selector("#status .status")
            assert person.ask("Hello?") == "An answer."
        finally:
            second.close()
