"""A chat with documents in a real Chromium: the collection picker, an answer's sources, the document panel."""

from typing import Any

import pytest

from app.ui import Running
from tests.accessibility import grave_findings
from tests.fake_documents import ScriptedDocuments
from tests.fakes import ScriptedEngine
from tests.page_driver import DESKTOP, LAPTOP, LAST, PageDriver

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("lease")]

TEXT = "\n\n".join(
    [
        "About a flat.",
        *(f"Clause {number}." for number in range(60)),
        "The tenant pays 1,200 <b>euros</b>.",
        "End.",
    ]
)
PICKER = ".collection-picker > .open"


@pytest.fixture
def lease(documents: ScriptedDocuments, engine: ScriptedEngine) -> int:
    engine.text = "It is 1,200 euros [1]."
    return documents.paste(documents.create("Contracts"), TEXT, "Lease")


@pytest.fixture
def person(page_driver: PageDriver) -> PageDriver:
    """A person whose chat uses the collection of contracts."""
    choose(page_driver)
    return page_driver


def choose(person: PageDriver) -> None:
    person.page.click(PICKER)
    person.page.click(".collection-picker [role=checkbox]")
    person.page.wait_for_selector(".collection-picker.on")
    person.page.keyboard.press("Escape")


def ask(person: PageDriver) -> None:
    person.send("tenant pays what?")
    person.wait_for_reply()


@pytest.mark.thorough
def test_collections_are_chosen_by_keyboard(person: PageDriver, documents: ScriptedDocuments) -> None:
    documents.paste(documents.create("Manuals"), "Press the button.", "Radio")
    person.page.focus(PICKER)
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector(".collection-picker [role=checkbox] >> text=Manuals")
    person.page.keyboard.press("Tab")
    person.page.keyboard.press("Tab")
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector(f"{PICKER} >> text=Documents: Contracts, Manuals")
    assert person.page.is_visible(".collection-picker .choices")
    assert person.page.get_attribute(PICKER, "aria-expanded") == "true"
    person.page.keyboard.press("Escape")
    assert person.page.is_hidden(".collection-picker .choices")
    person.reload()
    assert person.text(PICKER) == "Documents: off"


@pytest.mark.thorough
def test_a_citation_opens_its_passage_until_the_document_is_removed(
    person: PageDriver, documents: ScriptedDocuments, lease: int
) -> None:
    ask(person)
    assert person.text(f"{LAST} .cited p").startswith("Sources:")
    person.page.click(f"{LAST} .cite")
    person.page.wait_for_selector("#reading mark")
    assert person.text("#reading mark") == "The tenant pays 1,200 <b>euros</b>."
    assert "Found by its words and its meaning" in person.text("#reading header")
    mark, panel = (person.page.locator(f"#reading {part}").bounding_box() for part in ("mark", ".text"))
    assert panel["y"] <= mark["y"] <= panel["y"] + panel["height"]
    person.page.click("#reading [data-do=prompt]")
    person.page.wait_for_selector("#reading .original >> text=cite them like [1]")
    person.page.click("#reading [data-do=passage]")
    person.page.wait_for_selector("#reading mark")
    person.page.keyboard.press("Escape")
    person.page.wait_for_selector("#reading", state="hidden")
    assert person.page.evaluate("document.activeElement.className") == "cite"
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector("#reading mark", state="visible")
    person.begin_chat()
    person.page.wait_for_selector("#reading", state="hidden")
    person.page.click(".chat-line .open")

    documents.remove(lease)
    person.page.click(f"{LAST} .cited button")
    person.page.wait_for_selector("#reading .problem >> text=has been removed")
    person.page.click("[data-close=reading]")
    person.page.wait_for_selector("#reading", state="hidden")


@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        pytest.param("light", {"width": 400, "height": 800}, marks=pytest.mark.thorough),
        pytest.param("dark", DESKTOP, marks=pytest.mark.thorough),
        pytest.param("light", LAPTOP, marks=pytest.mark.thorough),
    ],
)
def test_chip_sources_and_reader_are_accessible(
    browser: Any, running: Running, engine: ScriptedEngine, scheme: str, size: dict[str, int]
) -> None:
    with PageDriver(browser, running.url, scheme=scheme, size=size) as person:
        choose(person)
        person.page.click(PICKER)
        assert grave_findings(person.page) == []
        person.page.keyboard.press("Escape")
        engine.text = "It is 1,200 euros [1]. Penguins swim in cold seas [1]."
        ask(person)
        person.page.click(f"{LAST} .cite.unsupported")
        person.page.wait_for_selector("#reading mark")
        assert "little in common" in person.text("#reading .doubt")
        assert "little in common" in person.text(f"{LAST} .cited .doubt")
        assert grave_findings(person.page) == []
        assert person.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
