"""A file of chats that could not be read is told on the page, where the person is, until they have read it."""

from pathlib import Path
from typing import Any

import pytest

from app.database.data_folder import data_dir_or_default
from app.database.files import FILE_NAME
from app.database.restoring import StagedBackup
from app.ui.frame.top_bar import Notice
from tests.accessibility import grave_findings
from tests.page_driver import PageDriver
from tests.support.app_process import AppProcess
from tests.ui.chat.people import pressed

NOTICE = "#notice .notice"


def test_a_notice_is_shown_until_it_was_read(tmp_path: Path) -> None:
    notice = Notice(lambda: "The file is <broken>.", StagedBackup(tmp_path))
    assert "The file is &lt;broken&gt;." in notice.html()
    notice.act(pressed("dismiss"))
    assert notice.html() == ""


@pytest.mark.thorough
@pytest.mark.browser
def test_chats_that_were_put_aside_are_told_on_the_page_and_under_about(browser: Any, tmp_path: Path) -> None:
    (data_dir_or_default(tmp_path) / FILE_NAME).write_bytes(b"no database " * 500)
    with AppProcess(tmp_path) as app, PageDriver(browser, app.url) as person:
        person.page.wait_for_selector(NOTICE)
        assert "could not be read" in person.text(NOTICE) and ".broken-" in person.text(NOTICE)
        assert grave_findings(person.page) == []
        person.page.click(f"{NOTICE} button")
        person.page.wait_for_selector(NOTICE, state="detached")
        person.reload()
        person.page.click("#to-settings")
        person.page.click("#settings-nav [data-section=about]")
        person.page.wait_for_selector("#facts h4")
        assert person.page.locator(NOTICE).count() == 0, "it was read"
        assert "could not be read" in person.text("#facts")
        assert person.complaints == [] and person.foreign == []
