"""What the page does with messages by itself: in a browser, without a server."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.ui.chat.messages import ThreadOptions, thread_html
from app.ui.chat.reply_text import thought_html
from app.values.chat import ChatVersion, MessageContent, StoredMessage, Thread, TokenMark

pytestmark = pytest.mark.browser

QUESTION = StoredMessage(6, "user", MessageContent("Is\n  <it>?", "done"), versions=(6,))
CODE = "Yes:\n\n```python\n\tx = 1\n```\n"
ANSWER = StoredMessage(
    7, "assistant", MessageContent(CODE, "done", marks=(TokenMark(3, "output", 1),)), versions=(7,)
)
THREAD = Thread(ChatVersion(1, 1), messages=(QUESTION, ANSWER))
COLOURED = ThreadOptions(coloured=frozenset({7}))
BODY = """
<div class="gradio-container"><div id="main"><div id="chat-search"><input></div>
<details class="menu"><summary>More</summary><button id="rename">Rename</button></details>
<div id="composer"><textarea></textarea><button id="stop">Stop</button></div><div id="place"></div></div>
<button id="to-models">Models</button><div id="chat-question"></div></div>
<script>
  const told = [], copied = [], place = document.getElementById("place");
  document.body.dataset.view = "chat";
  document.body.toggleAttribute("data-is-busy", true);
  Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => copied.push(text) } });
  document.getElementById("stop").onclick = () => told.push({ do: "stop" });
  foresight.thread(place);
  foresight.listen(place, (_, action) => told.push(action));
</script>
"""


@pytest.fixture
def page(script_page: Callable[[str], Any]) -> Any:
    """A page with a question and an answer."""
    page = script_page(BODY)
    draw(page)
    return page


def draw(page: Any, options: ThreadOptions = ThreadOptions(), thread: Thread = THREAD) -> None:  # noqa: B008
    """Draw the thread anew, as the server does at any time."""
    page.evaluate("html => { place.innerHTML = html; }", thread_html(thread, options))


THOUGHT = replace(ANSWER, content=MessageContent("<think>\nHm.\n</think>\n\nYes.", "done"))
THOUGHTFUL = replace(THREAD, messages=(QUESTION, THOUGHT))
LIVE = f'<article class="message" data-message="7">{thought_html("Hm.", is_thinking=True)}</article>'


def draw_live(page: Any, html: str = LIVE) -> None:
    page.evaluate("html => { place.innerHTML = html; }", html)


def reworded(text: str) -> Thread:
    """The thread with the question sent anew in other words."""
    return replace(
        THREAD, messages=(StoredMessage(8, "user", MessageContent(text, "done"), versions=(6, 8)),)
    )


def at_the_old_words() -> Thread:
    """The same chat, led back to the question as it was."""
    return replace(THREAD, messages=(replace(QUESTION, versions=(6, 8)), ANSWER))


def open_editor(page: Any) -> Any:
    page.hover(".message.user")
    page.click(".message.user footer [data-show=editor]")
    return page.locator(".message.user .editor textarea")


def test_an_edited_question_is_sent_with_its_text(page: Any) -> None:
    box = open_editor(page)
    assert box.input_value() == "Is\n  <it>?"
    box.fill('Is it "that"?\nYes?')
    box.press("Control+Enter")
    assert page.evaluate("told") == [{"do": "edit", "name": "6", "value": 'Is it "that"?\nYes?'}]


def test_an_edited_question_that_is_refused_stays_in_its_box(page: Any) -> None:
    box = open_editor(page)
    box.fill("In other words")
    page.click(".message.user [data-do=edit]")
    draw(page)
    assert box.is_visible() and box.input_value() == "In other words"


def test_the_box_is_done_with_once_the_question_stands_there_in_its_new_words(page: Any) -> None:
    box = open_editor(page)
    box.fill("In other words")
    page.click(".message.user [data-do=edit]")
    draw(page, thread=reworded("In other words"))
    assert box.is_hidden()
    draw(page, thread=at_the_old_words())
    assert box.is_hidden()


def test_another_version_of_a_question_leaves_what_is_being_written_alone(page: Any) -> None:
    box = open_editor(page)
    box.fill("In other words")
    draw(page, thread=reworded("What somebody else wrote"))
    draw(page, thread=at_the_old_words())
    assert box.is_visible() and box.input_value() == "In other words"


def test_a_double_click_sends_an_edited_question_once(page: Any) -> None:
    open_editor(page).fill("In other words")
    page.dblclick(".message.user [data-do=edit]")
    assert len(page.evaluate("told")) == 1


def test_an_empty_question_is_not_sent(page: Any) -> None:
    box = open_editor(page)
    box.fill("  ")
    page.click(".message.user [data-do=edit]")
    assert page.evaluate("told") == []
    assert box.is_visible()


def test_escape_closes_the_box_and_stops_nothing(page: Any) -> None:
    box = open_editor(page)
    box.press("Escape")
    assert box.is_hidden()
    assert page.evaluate("told") == []
    page.keyboard.press("Escape")
    assert page.evaluate("told") == [{"do": "stop"}]


@pytest.mark.parametrize("selector", ["#composer textarea", "#place", ".message.user footer button"])
def test_escape_stops_the_reply(page: Any, selector: str) -> None:
    page.locator(selector).first.focus()
    page.keyboard.press("Escape")
    assert page.evaluate("told") == [{"do": "stop"}]


def test_escape_in_another_box_stops_nothing(page: Any) -> None:
    page.press("#chat-search input", "Escape")
    assert page.evaluate("told") == []


def test_an_open_menu_takes_escape(page: Any) -> None:
    page.click("summary")
    page.press("#rename", "Escape")
    assert page.evaluate("told") == []
    assert page.locator("#main > details.menu").get_attribute("open") is None
    assert page.evaluate("document.activeElement.textContent") == "More"


@pytest.mark.parametrize(("height", "is_below"), [("5000px", True), ("0", False)])
def test_a_menu_opens_below_its_button_if_there_is_no_room_above(
    page: Any, height: str, is_below: bool
) -> None:
    menu = page.locator(".message.assistant .menu")
    menu.locator("> div").evaluate(
        "(list, height) => Object.assign(list.style, {height, padding: 0, overflow: 'hidden', border: 0})",
        height,
    )
    menu.locator("summary").click()
    page.wait_for_timeout(100)
    assert ("below" in (menu.get_attribute("class") or "")) == is_below


def test_an_open_question_takes_escape(page: Any) -> None:
    page.evaluate("""document.getElementById("chat-question").innerHTML = '<p class="question">?</p>'""")
    page.keyboard.press("Escape")
    assert page.evaluate("told") == []


def test_what_stands_in_the_box_stays_when_the_thread_is_drawn_anew(page: Any) -> None:
    open_editor(page).fill("Half a tho")
    draw(page)
    assert page.locator(".message.user .editor textarea").input_value() == "Half a tho"
    assert page.locator(".message.user .said").is_hidden()


def test_a_thought_stays_as_the_person_left_it(page: Any) -> None:
    draw_live(page)
    page.click(".thought summary")
    draw_live(page)
    thought = page.locator(".thought")
    assert thought.get_attribute("open") is None
    page.click(".thought summary")
    draw(page, thread=THOUGHTFUL)
    assert thought.get_attribute("open") == "", "also once it is stored"
    draw(page, thread=THOUGHTFUL)
    assert thought.get_attribute("open") == ""


def test_what_is_read_stays_where_it_is_while_earlier_messages_come_in(page: Any) -> None:
    many = [replace(QUESTION, id=number, versions=(number,)) for number in range(10, 40)]
    page.evaluate(
        "place.parentElement.id = 'thread'; place.parentElement.style = 'height: 200px; overflow: auto'"
    )
    draw(page, thread=replace(THREAD, messages=tuple(many[20:]), earlier=20))
    page.evaluate("place.parentElement.scrollTop = 0")
    oldest = page.locator("[data-message='30']")
    page.click("[data-do=earlier]")
    before = oldest.bounding_box()["y"]
    draw(page, thread=replace(THREAD, messages=tuple(many)))
    page.wait_for_function(
        "before => Math.abs(place.querySelector('[data-message=\"30\"]').getBoundingClientRect().y - before) < 2",
        arg=before,
    )


def test_copying_takes_what_was_written(page: Any) -> None:
    page.click(".message.assistant [data-copy=code]")
    page.click(".message.assistant [data-copy=message]")
    page.wait_for_function("copied.length === 2")
    assert page.evaluate("copied") == ["\tx = 1\n", CODE]


def test_colours_are_asked_for_once_and_then_go_on_and_off(page: Any) -> None:
    page.click(".message.assistant .menu summary")
    page.click("[data-do=colours]")
    assert page.evaluate("told.map((action) => action.do)") == ["colours"]
    assert page.locator(".message.assistant .said").is_visible()
    draw(page, COLOURED)
    page.wait_for_selector(".coloured .origin-output")
    assert page.locator(".message.assistant .said").is_hidden()
    page.click(".message.assistant .menu summary")
    page.click("[data-show=colours]")
    assert page.locator(".message.assistant .said").is_visible()
    assert page.evaluate("told.length") == 1


def test_the_keyboard_leads_to_the_search(page: Any) -> None:
    page.keyboard.press("Control+k")
    assert page.evaluate("document.activeElement.closest('#chat-search') !== null")


def test_the_keyboard_leads_to_the_search_from_any_view(page: Any) -> None:
    page.click("#to-models")
    assert page.locator("#main").is_hidden()
    page.keyboard.press("Control+k")
    assert page.evaluate("document.activeElement.closest('#chat-search') !== null")


COMPOSE = """(box, [key, keyCode]) => {
  const event = { key, keyCode, isComposing: keyCode !== 229, bubbles: true, cancelable: true };
  for (const kind of ["keydown", "keypress", "keyup"]) box.dispatchEvent(new KeyboardEvent(kind, event));
}"""


@pytest.mark.parametrize("code", [13, 27, 229])
@pytest.mark.parametrize("key", ["Enter", "Escape"])
def test_keys_of_an_input_method_only_compose(page: Any, key: str, code: int) -> None:
    page.locator("#composer textarea").evaluate(COMPOSE, [key, code])
    box = open_editor(page)
    box.evaluate(COMPOSE, [key, code])
    asks = '<p><button data-ask="Title" data-do="rename" data-name="1" data-value="a">Rename</button></p>'
    page.evaluate("html => place.insertAdjacentHTML('beforeend', html)", asks)
    page.click("[data-ask]")
    page.locator(".in-place").evaluate(COMPOSE, [key, code])
    assert page.locator(".in-place").count() == 1 and box.is_visible() and page.evaluate("told") == []


def test_boxes_run_in_the_direction_of_what_is_typed(page: Any) -> None:
    page.fill("#composer textarea", "\u05e9\u05dc\u05d5\u05dd")
    page.focus("#composer textarea")
    assert page.locator("#composer textarea").evaluate("box => getComputedStyle(box).direction") == "rtl"


@pytest.mark.parametrize("place", ["note", "offers", "elsewhere"])
def test_a_progress_bar_has_the_pages_colours_wherever_it_is(page: Any, place: str) -> None:
    page.evaluate(
        "place => document.body.insertAdjacentHTML('beforeend', `<p class='${place}'><progress></progress></p>`)",
        place,
    )
    assert page.evaluate("getComputedStyle(document.querySelector('progress')).appearance") == "none"
