"""The chat's page by keyboard and mouse, in a real Chromium: where it stands, what it remembers, what it opens."""

import re

import pytest

from app.values.logits import Grammar
from tests.accessibility import grave_by_day_and_by_night
from tests.fake_documents import ScriptedDocuments
from tests.fakes import ScriptedEngine
from tests.page_driver import LAST, PageDriver

pytestmark = pytest.mark.browser
SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
BOX = "#message textarea"
LONG = "and so it goes, line after line\n\n" * 60
FIRST_LINE = "House: rules of the boathouse by the northern lake"


def is_focused(person: PageDriver, selector: str) -> bool:
    return bool(person.page.evaluate("one => document.activeElement.matches(one)", selector))


def test_sending_and_a_button_lead_to_the_end_and_an_empty_chat_is_read_from_its_top(
    person: PageDriver, engine: ScriptedEngine
) -> None:
    engine.text = LONG
    person.ask("Talk")
    person.page.evaluate("document.getElementById('thread').scrollTop = 0")
    person.page.wait_for_selector("#jump-to-latest")
    person.page.click("#jump-to-latest")
    person.page.wait_for_selector("#jump-to-latest", state="hidden")
    assert is_focused(person, BOX)
    person.page.evaluate("document.getElementById('thread').scrollTop = 0")
    person.page.wait_for_selector("#jump-to-latest")
    person.send("On")
    person.page.wait_for_selector("#jump-to-latest", state="hidden")
    person.wait_for_reply()
    person.page.set_viewport_size({"width": 1366, "height": 420})
    person.page.click("#new-private-chat")
    person.page.wait_for_selector("#private-note")
    thread, note = (person.page.locator(part).bounding_box() for part in ("#thread", "#private-note"))
    assert person.page.evaluate("document.getElementById('thread').scrollTop") == 0
    assert thread["y"] <= note["y"] < thread["y"] + thread["height"]


def test_a_long_text_that_is_pasted_is_attached_by_one_press(
    person: PageDriver, documents: ScriptedDocuments
) -> None:
    person.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    person.page.type(BOX, "What is this? ")
    person.page.evaluate("text => navigator.clipboard.writeText(text)", f"{FIRST_LINE}\n\n{LONG}")
    person.page.press(BOX, "Control+V")
    person.page.click("#attach-pasted")
    person.page.wait_for_selector(".collection-picker.on >> text=House rules")
    person.page.wait_for_function(f"document.querySelector('{BOX}').value === 'What is this?'")
    assert is_focused(person, BOX) and not person.page.is_visible("#attach-pasted")
    [(name, text)] = documents.uploads
    assert text.decode() == f"{FIRST_LINE}\n\n{LONG}"
    assert name == "House rules of the boathouse by the.txt", "at most 40 characters, whole words"
    person.page.press(BOX, "Enter")
    person.wait_for_reply()
    assert person.page.locator("#messages article.user .said").inner_text() == "What is this?"


def test_the_address_names_the_chat_and_each_chat_keeps_its_draft(person: PageDriver) -> None:
    person.page.wait_for_function("document.activeElement.matches('#message textarea')")
    person.ask("One")
    person.page.type(BOX, "half a thought")
    assert re.search(r"#/chat/\d+$", person.page.url)
    person.page.keyboard.press("Control+Shift+O")
    person.page.wait_for_selector("#welcome")
    person.page.wait_for_function("document.querySelector('#message textarea').value === ''")
    assert is_focused(person, BOX)
    person.page.click("#to-models")
    person.page.go_back()
    person.page.go_back()
    person.page.wait_for_selector("#messages .said >> text=One")
    person.page.wait_for_function("document.querySelector('#message textarea').value === 'half a thought'")
    person.reload()
    person.page.wait_for_selector("#messages .said >> text=One")
    person.page.wait_for_function("document.querySelector('#message textarea').value === 'half a thought'")
    person.page.evaluate("location.hash = '#/chat/99'")
    person.page.wait_for_selector(".toast-body >> text=no longer")
    person.page.wait_for_function("location.hash === '#/chat'")
    person.page.wait_for_selector("#welcome")
    person.page.go_back()
    person.page.wait_for_selector("#messages .said >> text=One")


def test_the_panel_has_tabs_closes_and_keeps_its_width(person: PageDriver) -> None:
    person.ask("One")
    person.page.click("#side-tab-settings")
    assert person.page.is_visible("#system") and not person.page.is_visible("#panel")
    person.page.focus("#side-edge")
    before = person.page.locator("#side").bounding_box()["width"]
    person.page.keyboard.press("ArrowLeft")
    person.page.keyboard.press("Control+.")
    assert not person.page.is_visible("#side")
    person.reload()
    assert not person.page.is_visible("#side")
    person.page.click("#toggle-side")
    person.open_tab("live")
    assert person.page.is_visible("#panel")
    assert person.page.locator("#side").bounding_box()["width"] == before + 16
    person.page.press("#side-tab-live", "ArrowLeft")
    assert is_focused(person, "#side-tab-xray[aria-selected=true]")
    person.page.wait_for_selector("#xray-picture .xray")
    person.page.click("#xray [data-move=enlarge]")
    assert person.page.get_attribute("#xray", "role") == "dialog"
    person.page.keyboard.press("Escape")
    assert person.page.is_visible("#xray-picture") and not person.page.get_attribute("#xray", "role")


@pytest.mark.thorough
def test_a_sheet_lists_the_shortcuts_and_a_box_takes_its_own_keys(person: PageDriver) -> None:
    person.page.type(BOX, "Why?")
    assert not person.page.is_visible("#shortcuts")
    person.page.focus("#toggle-side")
    person.page.keyboard.press("?")
    assert "New chat" in person.text("#shortcuts")
    person.page.keyboard.press("Escape")
    assert not person.page.is_visible("#shortcuts")
    first = "document.querySelector('.gradio-container :is(button, a, input, textarea)').id"
    assert person.page.evaluate(first) == "skip-to-message"
    person.page.focus("#skip-to-message")
    person.page.keyboard.press("Enter")
    person.page.wait_for_function("document.activeElement.matches('#message textarea')")


@pytest.mark.thorough
def test_a_chat_answers_as_json_of_a_schema_and_says_what_is_wrong_with_one(
    person: PageDriver, engine: ScriptedEngine
) -> None:
    engine.text, engine.grammar_problem = '{"a": 1}', "Invalid type: strng"
    person.open_tab("settings")
    assert not person.page.is_visible("#json-schema")
    person.page.click("#answer-json input")
    person.page.fill("#json-schema textarea", '{"type": "strng"}')
    person.page.wait_for_selector("#json-schema-fault >> text=Invalid type: strng")
    assert grave_by_day_and_by_night(person.page) == []
    engine.grammar_problem = ""
    person.page.fill("#json-schema textarea", SCHEMA)
    person.page.wait_for_selector("#json-schema [aria-invalid=false]")
    person.ask("One")
    assert engine.requests[-1].logits.grammar == Grammar("json_schema", SCHEMA)
    person.begin_chat()
    person.page.wait_for_function("!document.querySelector('#answer-json input').checked")
    person.open_chat("One")
    person.page.wait_for_function("document.querySelector('#answer-json input').checked")
    assert person.page.input_value("#json-schema textarea") == SCHEMA


def test_an_answer_written_again_gives_the_focus_to_the_message_box_and_its_menu_is_seen_whole(
    person: PageDriver,
) -> None:
    page = person.page
    person.ask("Hello")
    person.ask("And again")
    page.focus(f"{LAST} footer summary")
    page.keyboard.press("Enter")
    page.focus(f"{LAST} [data-do=compare]")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{LAST} .versions >> text=2/2")
    page.wait_for_timeout(100)
    assert is_focused(person, BOX)
    page.focus(f"{LAST} [aria-label='Previous version']")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{LAST} .versions >> text=1/2")
    page.wait_for_timeout(100)
    assert page.evaluate("document.activeElement.closest('.versions') !== null")
    page.set_viewport_size({"width": 683, "height": 384})
    page.click(f"{LAST} footer summary")
    page.wait_for_function(
        """menu => { const { left, bottom } = document.querySelector(menu).lastElementChild.getBoundingClientRect();
        return document.elementFromPoint(left + 5, bottom - 5)?.closest(menu) }""",
        arg=f"{LAST} footer .menu > div",
    )
