"""The Documents view in a real Chromium: import, search, reading and removal, by mouse and by keyboard."""

from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

import pytest

from app.ui import Running
from tests.accessibility import grave_findings
from tests.fake_documents import ScriptedDocuments
from tests.page_driver import DESKTOP, PageDriver

pytestmark = pytest.mark.browser

EVIL = "<img src='http://evil.example/x.png' onerror='window.hacked = 1'><script>window.hacked = 1</script>"
TEXT = f"The tenant pays on the first. {EVIL}\n\n" + "\n\n".join(
    f"Clause {number}: the landlord keeps the roof." for number in range(80)
)


@pytest.fixture
def person(page_driver: PageDriver) -> Iterator[PageDriver]:
    """A person in the Documents view. Whatever the documents contain, the page runs none of it."""
    page_driver.page.click("#to-documents")
    yield page_driver
    assert page_driver.page.evaluate("window.hacked") is None


def paste(person: PageDriver, text: str, title: str = "") -> None:
    before = person.page.locator("#document-list .document-card").count()
    person.page.fill("#paste textarea", text)
    person.page.fill("#paste-title :is(input, textarea)", title)
    person.page.click("#paste-add")
    person.page.wait_for_function(
        "before => document.querySelectorAll('#document-list .document-card').length > before", arg=before
    )


def search(person: PageDriver, question: str) -> None:
    person.page.fill("#document-search-text :is(input, textarea)", question)
    person.page.click("#document-search-button")
    person.page.wait_for_selector(f"#search-results >> text=Results for “{question}”")


def test_a_text_is_pasted_searched_read_and_removed_and_a_replacement_is_undone(
    person: PageDriver, documents: ScriptedDocuments
) -> None:
    paste(person, TEXT, "Lease")
    person.page.wait_for_function("document.querySelector('#paste textarea').value === ''")
    search(person, "50: landlord")
    person.page.click("#search-results .open")
    person.page.wait_for_selector("#reading mark")
    assert person.text("#reading mark") == "Clause 50: the landlord keeps the roof."
    mark, panel = (person.page.locator(f"#reading {part}").bounding_box() for part in ("mark", ".text"))
    assert panel["y"] <= mark["y"] <= panel["y"] + panel["height"]
    person.page.keyboard.press("Escape")
    person.page.wait_for_selector("#reading", state="hidden")
    assert "Read Lease" in person.page.evaluate("document.activeElement.title")

    paste(person, "Something about a tenant.", "Notes")
    search(person, "tenant")
    person.page.click("#document-list .document-card:has-text('Lease') .open")
    person.page.wait_for_selector("#reading .original")
    person.page.click("#document-list .document-card:has-text('Lease') [data-do=remove]")
    for listing in ("#document-list", "#search-results"):
        person.page.wait_for_selector(f"{listing} .document-card:has-text('Lease')", state="detached")
    assert person.page.locator("#search-results .document-card").count() == 1
    person.page.wait_for_selector("#reading", state="hidden")

    # A replacement is undone by the toast or beside the document.
    paste(person, "Eggs boil.", "Eggs")
    eggs = max(documents.kept)
    for button in ("#undo [data-do=undo]", "#document-list [data-do=keep-both]"):
        documents.become(eggs, replaced=time())
        person.page.wait_for_selector(
            "#undo >> text=“Eggs” was replaced by a newer version. Undo keeps both."
        )
        person.page.click(button)
        person.page.wait_for_selector("#undo .undo", state="detached")
        person.page.wait_for_selector("#document-list [data-do=keep-both]", state="detached")
        assert documents.calls[-1] == ("undo_replacement", eggs)


@pytest.mark.thorough
def test_more_of_a_long_text_keeps_the_scroll_position(person: PageDriver) -> None:
    # Long lines: Chromium fills a box line by line, ever more slowly.
    paste(person, "\n\n".join(f"Paragraph {number}. {'word ' * 80}" for number in range(100)), "Long")
    search(person, "50.")
    person.page.click("#search-results .open")
    person.page.click("#reading [data-do=above]")
    person.page.wait_for_function("document.querySelector('#reading .original').innerText.length > 15000")
    person.page.wait_for_timeout(100)
    assert person.page.evaluate("document.querySelector('#reading .text').scrollTop") > 2000
    assert person.text("#reading mark").startswith("Paragraph 50.")


def test_files_are_imported_and_their_progress_is_shown(
    person: PageDriver, documents: ScriptedDocuments, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("one.md", "two words.txt", "code.py")]
    for file in files:
        file.write_text(f"What is in {file.name}")
    person.page.set_input_files("#import input[type=file]", files)
    person.page.wait_for_function("document.querySelectorAll('#document-list .document-card').length === 3")
    assert sorted(content for _, content in documents.uploads) == sorted(file.read_bytes() for file in files)
    documents.state = "indexing"
    person.page.set_input_files("#import input[type=file]", files[0])
    person.page.wait_for_function("document.querySelectorAll('#document-list .document-card').length === 4")
    last = max(documents.kept)
    documents.become(last, done=120, total=340)
    person.page.wait_for_selector("#document-list .badge >> text=Indexing, 120 of 340")
    documents.become(last, state="failed", note="It is encrypted: save it without a password.")
    person.page.wait_for_selector("#document-list .document-note >> text=without a password")
    person.page.click("#document-list [data-do=retry]")
    person.page.wait_for_selector("#document-list .is-failed", state="detached")


@pytest.mark.thorough
def test_collections_are_created_renamed_and_deleted_by_keyboard(person: PageDriver) -> None:
    person.page.click("#collections [data-do=create]")
    person.page.keyboard.type("Contracts")
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector("#collection-title >> text=Contracts")
    person.page.click("#collections summary")
    person.page.click("#collections [data-do=rename]")
    person.page.keyboard.press("Control+a")
    person.page.keyboard.type("Leases")
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector("#collection-title >> text=Leases")
    person.page.click("#collections summary")
    person.page.press("#collections [data-do=delete]", "Enter")
    person.page.wait_for_selector("#collections li", state="detached")
    person.page.keyboard.press("Control+z")
    person.page.wait_for_selector("#collections li")


@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        pytest.param("light", DESKTOP, marks=pytest.mark.thorough),
        pytest.param("dark", {"width": 400, "height": 800}, marks=pytest.mark.thorough),
    ],
)
def test_the_view_is_accessible(
    browser: Any, running: Running, documents: ScriptedDocuments, scheme: str, size: dict[str, int]
) -> None:
    with PageDriver(browser, running.url, scheme=scheme, size=size) as person:
        person.page.click("#to-documents")
        assert grave_findings(person.page) == []
        paste(person, TEXT, "Lease")
        documents.state = "reading"
        paste(person, "Some notes", "Notes")
        search(person, "tenant")
        person.page.click("#search-results .open")
        person.page.wait_for_selector("#reading mark")
        assert grave_findings(person.page) == []
        person.page.keyboard.press("Escape")
        person.page.click("#document-list [data-do=remove]")
        person.page.wait_for_selector(".undo")
        assert grave_findings(person.page) == []
        assert person.page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_the_open_collection_and_its_search_stay_when_the_page_is_reloaded(person: PageDriver) -> None:
    box = "#document-search-text :is(input, textarea)"
    for name in ("First", "Second"):
        person.page.click("#collections [data-do=create]")
        person.page.fill("#collections .in-place", name)
        person.page.keyboard.press("Enter")
        person.page.wait_for_selector(f"#collection-title >> text={name}")
        paste(person, TEXT)
    person.page.fill(box, "the roof")
    for _ in range(2):
        person.page.click("#to-chat")
        person.reload()
        person.page.click("#to-documents")
        person.page.wait_for_selector("#collection-title h2 >> text=Second")
        person.page.wait_for_function("box => document.querySelector(box).value === 'the roof'", arg=box)
