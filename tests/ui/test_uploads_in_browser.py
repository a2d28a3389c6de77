"""Files that a person chooses or drops right behind others: every one is taken, once, whatever still runs."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.chats.chats import Chats
from app.database.database import Database
from app.ui import Services
from tests.fake_documents import ScriptedDocuments
from tests.page_driver import PageDriver

pytestmark = pytest.mark.browser

EVENT, UPLOAD = "**/gradio_api/queue/join*", "**/gradio_api/upload*"
DOCUMENTS, CHAT = "#import input[type=file]", "#composer input[type=file]"
IMPORT, RESTORE = "input[data-testid^=Import]", "input[data-testid^=Restore]"
NAMES = ("first", "second")
SLOWER = 8
"""How many times slower the page's processor is made."""
DROP = """text => {
  const files = new DataTransfer();
  files.items.add(new File([text], "dropped.md"));
  const event = new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: files });
  return document.getElementById("import").dispatchEvent(event);
}"""


def files_for(box: str, folder: Path) -> list[Path]:
    """Two files that this box takes."""
    if box in (DOCUMENTS, CHAT):
        files = [folder / f"{name}.md" for name in NAMES]
        for file in files:
            file.write_text(f"The text of {file.name}.")
        return files
    made = []
    for name in NAMES:
        with closing(Database(folder / f"{name}.db")) as database:
            chats = Chats(database)
            chats.create(title=name)
            made.append(folder / f"{name}{'.json' if box == IMPORT else '.sqlite'}")
            if box == IMPORT:
                made[-1].write_text(chats.export_json(), encoding="utf-8")
            else:
                chats.database.backup(made[-1])
    return made


def hold_first(person: PageDriver, address: str) -> list[Any]:
    """Have the page's next request to this address held back; it is in the list once it was made."""
    held: list[Any] = []

    def handle(route: Any) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    person.page.route(address, handle)
    return held


def wait_until(person: PageDriver, is_so: Callable[[], object]) -> None:
    for _ in range(6_000):
        if is_so():
            return
        person.page.wait_for_timeout(50)
    assert is_so()


def taken(box: str, person: PageDriver, services: Services, documents: ScriptedDocuments) -> list[str]:
    """The names of the files that were taken through this box; the backup that the page asks about."""
    if box == IMPORT:
        titles = {one.title for one in services.conversations.stores.summaries()}
        return [name for name in NAMES if name in titles]
    if box == RESTORE:
        question = person.page.text_content("#restore-question") or ""
        return [name for name in NAMES if f"{name}.sqlite" in question]
    return [Path(name).stem for name, _ in documents.uploads]


@pytest.mark.parametrize("held", [(EVENT, UPLOAD), pytest.param((UPLOAD, EVENT), marks=pytest.mark.thorough)])
def test_a_second_file_is_taken_while_the_first_is_under_way(
    person: PageDriver,
    services: Services,
    documents: ScriptedDocuments,
    tmp_path: Path,
    held: tuple[str, str],
) -> None:
    for box, address in zip((DOCUMENTS, CHAT, RESTORE, IMPORT), (*held, *held), strict=True):
        documents.uploads.clear()
        first, second = files_for(box, tmp_path)
        requests = hold_first(person, address)
        person.page.set_input_files(box, first)
        wait_until(person, lambda requests=requests: requests)
        is_told = address == UPLOAD and box in (DOCUMENTS, CHAT)
        person.page.wait_for_selector("body[data-is-sending]" if is_told else "body:not([data-is-sending])")
        person.page.set_input_files(box, second)
        wait_until(person, lambda box=box: taken(box, person, services, documents) == ["second"])
        requests[0].continue_()
        wait_until(person, lambda box=box: "first" in taken(box, person, services, documents))
        person.page.wait_for_selector("body:not([data-is-sending])")
        person.page.unroute(address)


@pytest.mark.parametrize(
    ("view", "button"),
    [pytest.param("#to-documents", "#files", marks=pytest.mark.thorough), ("#to-chat", "#attach")],
)
def test_the_same_file_is_taken_as_often_as_it_is_chosen(
    person: PageDriver, documents: ScriptedDocuments, tmp_path: Path, view: str, button: str
) -> None:
    person.page.click(view)
    file, _ = files_for(DOCUMENTS, tmp_path)
    requests = hold_first(person, EVENT)
    for is_held in (True, False):
        with person.page.expect_file_chooser() as chooser:
            person.page.click(button)
        chooser.value.set_files(file)
        wait_until(person, lambda is_held=is_held: not is_held or requests)
    wait_until(person, lambda: documents.uploads)
    requests[0].continue_()
    wait_until(person, lambda: len(documents.uploads) == 2)
    assert person.page.locator(".toast-body").count() == 0


def test_files_are_taken_once_each_by_a_slow_page(
    person: PageDriver, documents: ScriptedDocuments, tmp_path: Path
) -> None:
    processor = person.page.context.new_cdp_session(person.page)
    processor.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    files = [tmp_path / f"{number}.md" for number in range(3)]
    for file in files:
        file.write_text(file.name)
        person.page.set_input_files(DOCUMENTS, file)
    wait_until(person, lambda: len(documents.uploads) >= len(files))
    processor.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    assert sorted(name for name, _ in documents.uploads) == [file.name for file in files]


def test_a_file_dropped_on_the_documents_while_another_is_sent_is_taken(
    person: PageDriver, documents: ScriptedDocuments, tmp_path: Path
) -> None:
    person.page.click("#to-documents")
    first, _ = files_for(DOCUMENTS, tmp_path)
    requests = hold_first(person, UPLOAD)
    person.page.set_input_files(DOCUMENTS, first)
    wait_until(person, lambda: requests)
    assert person.page.evaluate(DROP, "Dropped.") is False, "the browser would leave the page for the file"
    person.page.wait_for_selector("#document-list .document-card >> text=dropped")
    requests[0].continue_()
    person.page.wait_for_selector("#document-list .document-card >> text=first")
    assert sorted(name for name, _ in documents.uploads) == ["dropped.md", "first.md"]
