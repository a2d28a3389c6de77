"""What the page does with the list of chats by itself: in a browser, without a server."""

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from app.ui.sidebar.render import ChatList, chat_list_html
from app.values.chat import ChatSummary

pytestmark = pytest.mark.browser

BODY = """
<div class="gradio-container"><div id="list"></div><textarea id="elsewhere"></textarea></div>
<script>
  const told = [], list = document.getElementById("list");
  foresight.listen(list, (_, action) => told.push(action));
</script>
"""
ONE, TWO = ChatSummary(1, "One"), ChatSummary(2, "Two")


@pytest.fixture
def page(script_page: Callable[[str], Any]) -> Any:
    """A page with two chats, the second of which is being renamed."""
    page = script_page(BODY)
    draw(page, ONE, TWO)
    page.evaluate("list.querySelector('[data-do=rename][data-name=\"2\"]').click()")
    page.keyboard.type("Half a na")
    return page


def draw(page: Any, *lines: ChatSummary) -> None:
    """Draw the list anew, as the server does at any time."""
    html = chat_list_html(ChatList(lines), date.today())
    page.evaluate("html => { list.innerHTML = html; }", html)
    page.wait_for_timeout(50)


def test_a_new_title_is_written_on_while_the_list_is_drawn_anew(page: Any) -> None:
    draw(page, TWO, ONE)
    assert "Two" in page.locator("li:has(.in-place)").inner_text()
    page.keyboard.type("me")
    page.keyboard.press("Enter")
    [action] = page.evaluate("told")
    assert (action["do"], action["name"], action["value"]) == ("rename", "2", "Half a name")
    assert page.evaluate("document.activeElement.ariaLabel") == "More about Two"


def test_a_box_goes_with_its_chat(page: Any) -> None:
    draw(page, ONE)
    assert page.locator(".in-place").count() == 0
    assert page.evaluate("told") == []


def test_a_box_that_is_left_is_closed(page: Any) -> None:
    page.click("#elsewhere")
    page.wait_for_selector(".in-place", state="detached")
    assert page.locator(".asking").count() == 0
    assert page.evaluate("told") == []


def test_the_enter_that_names_a_new_folder_does_not_open_its_box_again(page: Any) -> None:
    page.keyboard.press("Escape")
    page.focus("[data-do=make-folder]")
    page.keyboard.press("Enter")
    page.keyboard.type("Work")
    page.keyboard.press("Enter")
    assert [action["value"] for action in page.evaluate("told")] == ["Work"]
    assert page.locator(".in-place").count() == 0
