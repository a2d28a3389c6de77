"""A found message is shown with its words marked; a chat is dragged into a folder, found in and printed whole."""

from collections.abc import Iterator

import pytest

from app.ui import Services
from tests.page_driver import PageDriver

pytestmark = pytest.mark.browser
CUT = """
    [...document.querySelectorAll("#messages :is(pre, p, .table, .formula)")]
        .filter((one) => one.scrollWidth > one.clientWidth ||
            (one.matches("pre, .table") && one.scrollHeight > one.clientHeight))
        .map((one) => one.outerHTML.slice(0, 80))
"""
WIDE = f"""```python
{"value = " + "an_argument + " * 60}1
```

| {"name | " * 12}
|{"---|" * 12}
| {"a_word_without_any_space | " * 12}

So ${"x_1 + y^2 + " * 30}z$ and

$${"x_1 + y^2 + " * 30}z$$
"""
MARKED = """
    [...(CSS.highlights.get("found") ?? [])]
        .map((one) => one.startContainer.data.slice(one.startOffset, one.endOffset))
"""


@pytest.fixture(autouse=True)
def _a_long_chat(person: PageDriver, services: Services) -> Iterator[None]:
    store = services.conversations.stores.stored
    version = store.create(title="Long one")
    for number in range(40):
        more = " about the Pomegranat\u00e9 tree" if number == 3 else ""
        version, _ = store.add(version, "user", f"Question {number}{more}")
        version, _ = store.add(version, "assistant", WIDE if number == 1 else "Some words follow here. " * 20)
    person.page.emulate_media(color_scheme="dark")
    person.page.wait_for_selector(".chat-line")
    yield
    person.page.fill("#chat-search :is(input, textarea)", "")
    store.delete(version.chat)
    person.page.wait_for_selector(".chat-line", state="detached")


def test_a_hit_opens_the_chat_at_the_message_with_the_words_marked_and_a_chat_is_dragged(
    person: PageDriver, services: Services
) -> None:
    person.page.fill("#chat-search :is(input, textarea)", "pomegranate tr")
    person.page.wait_for_selector("#chats mark")
    person.page.keyboard.press("Enter")
    person.page.wait_for_function(f"({MARKED}).length === 2")
    assert person.page.evaluate(MARKED) == ["Pomegranat\u00e9", "tr"]
    box = person.page.locator("#messages .said >> text=Pomegranat").bounding_box()
    assert 60 < box["y"] < 700

    # It is dragged into a folder and out of it.
    person.page.fill("#chat-search :is(input, textarea)", "")
    services.conversations.stores.stored.make_folder("Fruit")
    person.page.wait_for_selector(".fold >> text=Fruit")
    person.page.drag_and_drop(".chat-line", ".folder .fold")
    person.page.wait_for_selector(".folder + ul .chat-line >> text=Long one")
    person.page.drag_and_drop(".folder + ul .chat-line", ".folders-head h3")
    person.page.wait_for_selector("h3 + ul .chat-line >> text=Long one")
    assert services.conversations.stores.stored.in_folder("Fruit") == ()


def test_to_find_and_to_print_all_messages_are_drawn_by_day(person: PageDriver) -> None:
    person.open_chat("Long one")
    assert person.page.locator("#messages .message").count() == 50
    person.page.keyboard.press("Control+f")
    person.page.wait_for_selector("#messages >> text=Question 0")
    person.begin_chat()
    person.page.evaluate(
        "() => { const count = () => document.querySelectorAll('.message').length;"
        " window.print = () => (document.body.dataset.printed = count()); }"
    )
    person.do_with_chat("Long one", "print")
    person.page.wait_for_selector("body[data-printed='80']")
    assert person.is_dark()
    person.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    person.page.emulate_media(media="print")
    assert not person.page.is_visible("#composer") and not person.page.is_visible("#sidebar")
    assert person.page.is_visible("#messages") and not person.page.evaluate("document.body.matches('.dark')")
    assert person.page.locator("#messages pre").count() and person.page.locator("#messages .table").count()
    assert person.page.evaluate(CUT) == []
    person.page.emulate_media(media="screen")
    person.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert person.is_dark()
