"""The sidebar in a real Chromium: its width, the search by the keyboard, undo, folders, and a long list."""

import pytest

from app.ui import Services
from tests.accessibility import grave_findings
from tests.page_driver import PageDriver

pytestmark = pytest.mark.browser

CHATS = 40


@pytest.fixture
def person(services: Services, page_driver: PageDriver) -> PageDriver:
    for number in range(CHATS):
        services.conversations.stores.stored.create(title=f"Chat number {number}")
    page_driver.page.wait_for_function(f"document.querySelectorAll('.chat-line').length === {CHATS}")
    return page_driver


def bottom(person: PageDriver, selector: str) -> float:
    box = person.page.locator(selector).last.bounding_box()
    return float(box["y"] + box["height"])


@pytest.mark.thorough
def test_a_long_list_scrolls_above_what_stands_below_it(person: PageDriver) -> None:
    box = person.page.locator("#sidebar").bounding_box()
    below = box["y"] + box["height"]
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


def width(person: PageDriver) -> float:
    return float(person.page.locator("#sidebar").bounding_box()["width"])


def titles(person: PageDriver) -> list[str]:
    return [str(title) for title in person.page.locator(".chat-line .open span").all_inner_texts()]


def focused(person: PageDriver) -> str:
    return str(
        person.page.evaluate(
            "document.activeElement.closest('.chat-line')?.innerText ?? document.activeElement.id"
        )
    )


def test_a_pinned_chat_keeps_the_focus_and_an_open_menu_stays_open_when_the_list_changes(
    person: PageDriver, services: Services
) -> None:
    page = person.page
    page.focus(".chat-line:has-text('Chat number 0') summary")
    page.keyboard.press("Enter")
    page.focus("#chats details[open] [data-do=pin]")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('#chats .chat-line').innerText.includes('Chat number 0')")
    page.wait_for_timeout(100)
    assert focused(person).startswith("Chat number 0\n")
    page.click(".chat-line:has-text('Chat number 7') summary")
    services.conversations.stores.stored.create(title="From elsewhere")
    page.wait_for_selector(".chat-line >> text=From elsewhere")
    assert page.locator("#chats details[open]").count() == 1
    page.click("#chats details[open] [data-do=pin]")
    page.wait_for_function("document.querySelector('#chats .chat-line').innerText.includes('Chat number 7')")


@pytest.mark.thorough
def test_the_sidebar_is_resized_and_hidden_and_stays_so(person: PageDriver) -> None:
    page, edge = person.page, "#sidebar-edge [role=separator]"
    before = width(person)
    box = page.locator(edge).bounding_box()
    page.mouse.move(box["x"] + 4, 300)
    page.mouse.down()
    page.mouse.move(box["x"] + 104, 300, steps=4)
    page.mouse.up()
    assert width(person) == pytest.approx(before + 100, abs=6)
    page.focus(edge)
    page.keyboard.press("ArrowLeft")
    resized = width(person)
    assert int(page.get_attribute(edge, "aria-valuenow")) == resized == pytest.approx(before + 84, abs=6)
    person.reload()
    assert width(person) == resized
    page.keyboard.press("Control+b")
    page.wait_for_selector("#sidebar", state="hidden")
    assert page.get_attribute("#open-chats", "aria-expanded") == "false"
    person.reload()
    assert page.locator("#sidebar").is_hidden()
    assert page.locator("#chat").bounding_box()["x"] == 0
    page.click("#open-chats")
    page.wait_for_selector("#sidebar", state="visible")
    page.dblclick(edge)
    assert width(person) == before
    assert grave_findings(page) == []


@pytest.mark.thorough
def test_the_search_is_used_by_the_keyboard_alone(person: PageDriver) -> None:
    page = person.page
    page.keyboard.press("Control+k")
    page.keyboard.type("number 1")
    page.wait_for_selector("text=11 chats found")
    assert titles(person)[:2] == ["Chat number 19", "Chat number 18"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "Chat number 18" in focused(person)
    page.keyboard.press("Enter")
    page.wait_for_selector(".chat-line[aria-current] >> text=Chat number 18")
    page.keyboard.press("Escape")
    page.wait_for_selector("text=11 chats found", state="detached")
    assert page.input_value("#chat-search :is(input, textarea)") == ""
    page.keyboard.type("number 7")
    page.wait_for_selector("text=1 chat found")
    page.keyboard.press("Enter")
    page.wait_for_selector(".chat-line[aria-current] >> text=Chat number 7")


def test_a_deletion_is_undone_by_ctrl_z_or_its_toast_on_any_view(person: PageDriver) -> None:
    page = person.page
    page.press(".chat-line:has-text('Chat number 39') summary", "Enter")
    page.press(".chat-line:has-text('Chat number 39') [data-do=delete]", "Enter")
    page.wait_for_selector("#undo .undo >> text=“Chat number 39” was deleted.")
    page.wait_for_function(
        "document.activeElement.closest('.chat-line')?.innerText.includes('Chat number 38')"
    )
    page.click("#to-models")
    assert page.locator("#undo [data-do=undo]").is_visible()
    page.click("#to-chat")
    page.fill("#message textarea", "typed")
    page.keyboard.press("Control+z")
    assert page.locator("#undo .undo").count() == 1, "the box's own undo comes first"
    page.fill("#message textarea", "")
    page.click("#undo .hide-undo")
    page.wait_for_selector("#undo .undo", state="hidden")
    page.keyboard.press("Control+z")
    page.wait_for_selector(".chat-line >> text=Chat number 39")
    page.wait_for_selector("#undo .undo", state="detached")

    # Once the last chat is deleted by the keyboard, the list keeps the focus.
    page.locator(".chat-line summary").last.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")  # from the menu's button to the chat, so that the focus came by a key
    page.keyboard.press("Tab")
    while not page.evaluate("document.activeElement.matches('[data-do=delete]')"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("count => document.querySelectorAll('.chat-line').length === count", arg=CHATS - 1)
    page.wait_for_function("document.activeElement.closest('.chat-line')")


@pytest.mark.thorough
def test_a_folder_is_made_and_deleted_where_it_is_seen(person: PageDriver, services: Services) -> None:
    page, store = person.page, services.conversations.stores.stored
    page.click("[data-do=make-folder]")
    page.fill(".in-place", "Plans")
    page.press(".in-place", "Enter")
    page.wait_for_selector(".fold >> text=Plans")
    person.do_with_chat("Chat number 39", "move", "Plans")
    page.wait_for_selector(".folder + ul .chat-line")
    assert grave_findings(page) == []
    page.hover(".folder")
    page.click(".folder summary")
    page.click("[data-do=delete-folder]")
    page.wait_for_selector(".fold", state="detached")
    page.click("#undo [data-do=undo]")
    page.wait_for_selector(".fold >> text=Plans")
    assert [line.folder for line in store.summaries() if line.title == "Chat number 39"] == ["Plans"]
