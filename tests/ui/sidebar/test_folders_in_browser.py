"""Folders in a real Chromium: suggested by their names, unfolded, and renamed in place."""

from typing import Any

import pytest

from app.ui import Running, Services
from tests.accessibility import grave_findings
from tests.page_driver import PageDriver

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.thorough)])
def test_a_chat_is_moved_and_its_folder_unfolded_and_renamed(
    browser: Any, running: Running, services: Services, scheme: str
) -> None:
    store = services.conversations.stores.stored
    for title, name in (("Tulips", "Garden & Co"), ("Roses", "Garden & Co"), ("Loose", "")):
        store.create(title=title, folder=name)
    with PageDriver(browser, running.url, scheme=scheme) as person:
        page = person.page
        page.wait_for_selector(".chat-line >> text=Loose")
        assert page.locator(".chat-line").count() == 1
        person.do_with_chat("Loose", "move")
        assert page.eval_on_selector(".in-place", "box => box.list.options[0].value") == "Garden & Co"
        page.fill(".in-place", "Garden & Co")
        page.press(".in-place", "Enter")
        page.wait_for_selector(".fold[aria-expanded=true] >> text=3")
        assert page.locator(".chat-line").count() == 3, "where it went is shown"
        page.hover(".folder")
        page.click(".folder summary")
        assert grave_findings(page) == []
        page.click(".folder [data-do=rename-folder]")
        page.fill(".in-place", "Plants")
        page.press(".in-place", "Enter")
        page.wait_for_selector(".fold >> text=Plants")
        assert store.folders() == ("Plants",)
        page.click(".fold")
        page.wait_for_selector(".chat-line", state="detached")
        assert grave_findings(page) == []
        assert person.complaints == [] and person.foreign == []
