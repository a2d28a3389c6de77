"""Files that the page saves, in a real Chromium: with their names, as they were, and as often as asked for."""

from pathlib import Path

import pytest

from app.ui import Services
from tests.page_driver import PageDriver
from tests.ui.chat.people import Visitor

pytestmark = pytest.mark.browser

ODD = "Say ${1 + 1} {{x}} <b>\"it\"</b> & 'that'?\n    indented"
SAVE = "#chats details.menu >> text=Save as Markdown"


@pytest.fixture(autouse=True)
def _odd_chat(services: Services) -> None:
    Visitor(services).get(ODD)


def save(person: PageDriver, folder: Path) -> tuple[str, str]:
    """Save the only chat: the file's name and what it says."""
    person.page.hover("#chats .chat-line")
    person.page.click("#chats details.menu summary")
    with person.page.expect_download() as download:
        person.page.click(SAVE)
    download.value.save_as(folder / "file")
    return download.value.suggested_filename, (folder / "file").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_a_chat_is_saved_as_it_was_and_as_often_as_asked(person: PageDriver, tmp_path: Path) -> None:
    name, text = save(person, tmp_path)
    assert name.startswith("Say ") and name.endswith(".md")
    assert ODD in text and "Hello there, friend." in text
    assert save(person, tmp_path) == (name, text), "once more"
