"""The list of chats in a real Chromium, when it is longer than its window."""

from typing import Any

import pytest

from app.ui import Running, Services
from tests.page_driver import PageDriver

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

CHATS = 40


@pytest.fixture
def person(browser: Any, services: Services, running: Running) -> Any:
    for number in range(CHATS):
        services.conversations.stores.stored.create(title=f"Chat number {number}")
    with PageDriver(browser, running.url) as driver:
        driver.page.wait_for_selector(".chat-line")
        yield driver
        assert driver.complaints == []


def bottom(person: PageDriver, selector: str) -> float:
    box = person.page.locator(selector).last.bounding_box()
    return float(box["y"] + box["height"])


@pytest.mark.thorough
def test_a_long_list_scrolls_above_what_stands_below_it(person: PageDriver) -> None:
    below = person.page.locator("#export-chats").bounding_box()["y"]
    assert bottom(person, "#chats") <= below
    assert bottom(person, ".chat-line") > below, "the last chat is further down"
    person.page.mouse.move(100, 400)
    person.page.mouse.wheel(0, 10_000)
    person.page.wait_for_timeout(300)
    assert bottom(person, ".chat-line") <= below


@pytest.mark.thorough
def test_the_menu_of_the_last_chat_can_be_used(person: PageDriver) -> None:
    person.do_with_chat("Chat number 0", "rename", "Found again")
    person.page.wait_for_selector(".chat-line >> text=Found again")
