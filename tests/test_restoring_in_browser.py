"""A backup, an emptied app, the backup restored: everything is back, and looks as before."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.database.files import FILE_NAME
from tests.page_driver import LAST, PageDriver
from tests.pictures import HOUSE_RULES, KEY
from tests.support.app_process import AppProcess

pytestmark = [pytest.mark.thorough, pytest.mark.browser]

TABLES = ("chat", "message", "preset", "folder", "collection", "document", "passage")


def rows(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return {table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in TABLES}


def fill(person: PageDriver) -> str:
    """Make a chat that cites a document, in a folder. Returns the answer."""
    person.wait_until_ready()
    person.paste("House rules", HOUSE_RULES)
    person.page.click("#to-chat")
    person.begin_chat()
    person.consult()
    answer = person.ask("Where is the spare key of the boathouse?")
    person.do_with_chat(person.text(".chat-line[aria-current] .open"), "rename", "The key")
    person.page.wait_for_selector(".chat-line >> text=The key")
    person.do_with_chat("The key", "move", "Holidays")
    person.page.wait_for_selector("#chats h3 >> text=Holidays")
    return answer


def data_section(person: PageDriver) -> None:
    person.page.click("#to-settings")
    person.page.click("#settings-nav [data-section=data]")


def back_up(person: PageDriver, target: Path) -> None:
    data_section(person)
    with person.page.expect_download() as download:
        person.page.click("#back-up a >> text=Back up")
    download.value.save_as(target)


def empty(person: PageDriver) -> None:
    person.remove_document()
    data_section(person)
    person.page.click("#delete-chats summary")
    person.page.click("#delete-chats [data-do=delete-chats]")
    person.page.wait_for_selector(".chat-line", state="detached")


def restore(person: PageDriver, backup: Path) -> None:
    """Choose a backup in the settings; the next start puts it in place."""
    with person.page.expect_file_chooser() as chooser:
        person.page.click("#restore-backup")
    chooser.value.set_files(backup)
    person.page.click("#restore-question [data-do=restore]")
    person.page.wait_for_selector("#notice >> text=will be restored when Foresight is started again")


def test_what_was_backed_up_and_deleted_is_all_back_after_restoring(browser: Any, tmp_path: Path) -> None:
    backup = tmp_path / "backup.sqlite"
    with AppProcess(tmp_path / "data") as app:
        with PageDriver(browser, app.url) as person:
            answer = fill(person)
            back_up(person, backup)
            empty(person)
            restore(person, backup)
        app.end()
        assert not rows(app.data_dir / FILE_NAME)["message"]
        app.start()
        with PageDriver(browser, app.url) as person:
            person.page.wait_for_selector("#notice >> text=The backup was restored.")
            person.page.click("#chats [data-do=expand] >> text=Holidays", timeout=300_000)
            person.open_chat("The key")
            assert person.wait_for_reply() == answer
            person.page.click(f"{LAST} [data-do=source]")
            person.page.wait_for_selector("#reading mark")
            assert KEY in person.text("#reading mark")
            assert person.complaints == [] and person.foreign == []
        app.end()
        assert rows(app.data_dir / FILE_NAME) == rows(backup)
