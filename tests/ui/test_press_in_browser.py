"""A press counts although its part changes meanwhile: in a browser, with frames sent by the test."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.browser

CONTROLS = {
    "button": "<button data-do='remove'>Remove</button>",
    "menu": "<details><summary>More</summary></details>",
    "box": "<label><input type='checkbox'>On</label>",
    "link": "<a href='#there'>There</a>",
}
SERVER = """() => {
    window.sent = [];
    window.clicks = 0;
    addEventListener("click", ({ target }) => (clicks += target.matches("button, summary, input, a")), true);
    window.WebSocket = class extends EventTarget {
        static OPEN = 1;
        readyState = 1;
        constructor() { super(); window.server = this; }
        send(text) { sent.push(text); }
        draw(parts) { this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(parts) })); }
    };
    window.foresight.connect(Object.assign(document.createElement("p"), { textContent: "session" }));
}"""


@pytest.fixture
def page(script_page: Callable[[str], Any]) -> Any:
    page = script_page("<div id='list'></div>")
    page.evaluate(SERVER)
    return page


def draw(page: Any, html: str) -> None:
    page.evaluate("html => server.draw({ list: html })", html)


@pytest.mark.parametrize("name", CONTROLS)
def test_a_press_counts_although_the_part_changes_meanwhile(page: Any, name: str) -> None:
    draw(page, CONTROLS[name])
    page.wait_for_selector("#list > *")
    page.hover("#list > *")
    page.mouse.down()
    draw(page, f"{CONTROLS[name]}<p>New</p>")
    page.mouse.up()
    page.wait_for_selector("#list >> text=New")
    assert page.evaluate("clicks") == 1
    if name in ("button", "box"):
        page.focus("#list :is(button, input)")
        page.keyboard.down(" ")
        draw(page, f"{CONTROLS[name]}<p>Newer</p>")
        page.keyboard.up(" ")
        page.wait_for_selector("#list >> text=Newer")
        assert page.evaluate("clicks") == 2


@pytest.mark.parametrize("end", ["dragstart", "contextmenu", "pointercancel", "blur"])
def test_the_page_is_drawn_again_if_a_press_ends_without_a_click(page: Any, end: str) -> None:
    draw(page, CONTROLS["button"])
    page.hover("#list button")
    page.mouse.down()
    before = page.evaluate("sent.length")
    draw(page, "<p>New</p>")
    page.evaluate("new Promise((done) => setTimeout(done))")
    assert page.evaluate("sent.length") == before, "the server must wait with its next frame"
    page.evaluate("kind => window.dispatchEvent(new Event(kind))", end)
    page.wait_for_selector("#list >> text=New")


def test_a_press_right_after_another_counts(page: Any) -> None:
    """A busy browser handles the second key before the timer that ends the first press."""
    draw(page, CONTROLS["button"])
    page.wait_for_selector("#list button")
    page.evaluate("""() => {
        const press = (kind) => list.firstChild.dispatchEvent(new KeyboardEvent(kind, { key: " ", bubbles: true }));
        ["keydown", "keyup", "keydown"].forEach(press);
    }""")
    draw(page, "<p>New</p>")
    page.evaluate("new Promise((done) => setTimeout(() => setTimeout(done)))")
    assert page.query_selector("#list button"), "the second press has not ended"
    page.keyboard.up(" ")
    page.wait_for_selector("#list >> text=New")
