"""The key as a person meets it: the app's address opens the page, any other way asks for the key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.ui import Running
from tests.page_driver import LAPTOP, PageDriver

pytestmark = pytest.mark.browser


@pytest.fixture
def stranger(browser: Any) -> Iterator[Any]:
    """A browser's page that has never seen the app."""
    context = browser.new_context(viewport=LAPTOP)
    yield context.new_page()
    context.close()


def test_the_address_opens_the_page_loses_its_key_and_a_reload_needs_none(
    browser: Any, running: Running
) -> None:
    with PageDriver(browser, running.url) as person:
        assert person.page.url.partition("#")[0] == f"{running.endpoint.origin}/"
        assert running.endpoint.key not in person.page.evaluate("document.cookie + location.href")
        person.reload()
        assert (person.complaints, person.foreign) == ([], [])
        person.page.goto(running.url)
        person.page.wait_for_selector("#message textarea")
        assert person.page.url.partition("#")[0] == f"{running.endpoint.origin}/"
        while person.page.url.startswith("http"):
            assert running.endpoint.key not in person.page.url, "going back must not lead to the key"
            person.page.go_back()


@pytest.mark.thorough
def test_without_the_key_a_form_asks_for_it_and_takes_the_key_or_the_address(
    stranger: Any, running: Running, screenshots: Path | None
) -> None:
    stranger.goto(running.endpoint.origin)
    assert stranger.inner_text("h1") == "Foresight needs its key"
    if screenshots:
        stranger.screenshot(path=screenshots / "key.png")
    for given in ("wrong", f"wrong{running.url}x"):
        stranger.fill("#key", given)
        stranger.press("#key", "Enter")
        stranger.wait_for_selector(".problem")
    stranger.fill("#key", f" {running.url} ")
    stranger.press("#key", "Enter")
    stranger.wait_for_selector("#message textarea")
    assert stranger.url.partition("#")[0] == f"{running.endpoint.origin}/"


@pytest.mark.thorough
def test_a_link_on_another_page_leads_in_who_has_the_key(stranger: Any, running: Running) -> None:
    stranger.goto(running.url)
    stranger.wait_for_selector("#message textarea")
    stranger.goto("data:text/html,<a href='" + running.endpoint.origin + "'>Foresight</a>")
    stranger.click("a")
    stranger.wait_for_selector("#message textarea")
