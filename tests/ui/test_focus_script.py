"""Where the focus goes when the button that had it disappears: in a browser, without a server."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.browser

BODY = """
<button id="to-models">Models</button>
<div id="message"><textarea></textarea></div>
<div><button id="start">Start</button><button id="stop-it">Stop</button></div>
<p><button id="undo-it">Undo</button></p>
<p id="note" tabindex="0">Note</p>
"""
PRESSED = """([id, kind]) => {
    const button = document.getElementById(id);
    kind === "hidden" ? (button.hidden = true) : button.remove();
    document.dispatchEvent(new CustomEvent("foresight-drawn", { detail: {} }));
}"""


@pytest.fixture
def page(script_page: Callable[[str], Any]) -> Any:
    page = script_page(BODY)
    page.evaluate("document.dispatchEvent(new CustomEvent('foresight-drawn', { detail: {} }))")
    return page


@pytest.mark.parametrize(
    ("view", "button", "kind", "then"),
    [
        ("chat", "start", "hidden", "textarea"),
        ("chat", "undo-it", "removed", "textarea"),
        ("models", "undo-it", "removed", "#to-models"),
        ("race", "start", "hidden", "#stop-it"),
    ],
)
def test_a_button_that_disappears_hands_the_focus_on(
    page: Any, view: str, button: str, kind: str, then: str
) -> None:
    page.evaluate("view => { document.body.dataset.view = view; }", view)
    page.focus(f"#{button}")
    page.evaluate(PRESSED, [button, kind])
    page.wait_for_function("then => document.activeElement.matches(then)", arg=then)


def test_the_focus_stays_away_where_the_user_left_the_button(page: Any) -> None:
    page.evaluate("document.body.dataset.view = 'chat'")
    page.focus("#start")
    page.focus("#note")
    page.evaluate(PRESSED, ["start", "hidden"])
    page.wait_for_timeout(50)
    assert page.evaluate("document.activeElement.id") == "note"
