"""All chats as files, from a real server and by a real browser: whole, named, and gone from where they were."""

import json
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from app.chats.chats import Chats
from app.conversation import NewChat
from app.database.database import Database
from app.errors import StoreFull
from app.ui import Running, Services
from app.ui.frame.file_export import BACKUP, CHATS, file_name
from app.ui.frame.uploads import uploads_dir
from app.values.chat import ChatSettings, ChatVersion
from app.values.messages import Options
from tests.page_driver import PageDriver
from tests.ui.conftest import key_of


@pytest.fixture
def talked(services: Services) -> Services:
    """Services with two chats and a private one."""
    for is_private, question in ((False, "Why 全文?"), (False, "<b>Then?"), (True, "My secret")):
        services.conversations.start(
            NewChat(ChatVersion(), services.asked(Options()), question, ChatSettings(), is_private)
        )
    services.conversations.close()
    return services


def get(running: Running, path: str) -> tuple[HTTPResponse, bytes]:
    with closing(HTTPConnection("127.0.0.1", running.port, timeout=300)) as connection:
        connection.request("GET", path, headers=key_of(running))
        response = connection.getresponse()
        return response, response.read()


def titles(chats: Chats) -> set[str]:
    return {line.title for line in chats.summaries()}


def test_every_chat_but_private_ones_is_in_one_file_that_comes_in_parts(
    talked: Services, running: Running
) -> None:
    response, body = get(running, CHATS)
    assert response.headers["Transfer-Encoding"] == "chunked"
    assert response.headers["Content-Disposition"].startswith('attachment; filename="Foresight chats 2')
    assert response.headers["Cache-Control"] == "no-store"
    assert {chat["title"] for chat in json.loads(body)["chats"]} == titles(talked.conversations.stores.stored)
    assert b"My secret" not in body


def test_a_backup_is_the_whole_database_and_leaves_no_copy_behind(
    talked: Services, running: Running, tmp_path: Path
) -> None:
    response, body = get(running, BACKUP)
    assert response.headers["Content-Disposition"].startswith('attachment; filename="Foresight backup 2')
    (tmp_path / "copy.sqlite").write_bytes(body)
    with closing(Database(tmp_path / "copy.sqlite")) as database:
        assert titles(Chats(database)) == titles(talked.conversations.stores.stored)
        assert database.damage() == ""
    assert list(uploads_dir(tmp_path).iterdir()) == []


def test_a_backup_that_the_disk_refuses_is_answered_with_why(
    services: Services, running: Running, tmp_path: Path
) -> None:
    def refuse(_target: Path) -> None:
        raise StoreFull("The disk is full: free some space.")

    services.conversations.stores.stored.database.backup = refuse  # type: ignore[method-assign]
    response, body = get(running, BACKUP)
    assert (response.status, body) == (503, b"The disk is full: free some space.")
    assert list(uploads_dir(tmp_path).iterdir()) == []


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.usefixtures("talked")
def test_both_files_are_saved_from_the_page(browser: Any, running: Running) -> None:
    with PageDriver(browser, running.url) as person:
        person.page.click("#to-settings")
        person.page.click("#settings-nav [data-section=data]")
        assert len(json.loads(person.saved("#export-chats >> text=Export all"))["chats"]) == 2
        with person.page.expect_download() as download:
            person.page.click("#back-up >> text=Back up")
        assert download.value.path().read_bytes().startswith(b"SQLite format 3\0")
        assert download.value.suggested_filename.startswith("Foresight backup 2")
        assert person.complaints == [] and person.foreign == []
        person.page.click("#to-chat")
        person.send("And on it goes")
        person.wait_for_reply()


@pytest.mark.parametrize(
    ("wished", "name"),
    [
        ("Plans.md", "Plans.md"),
        ("What is v1.2?.md", "What is v1.2.md"),
        ("../../etc/passwd.json", "etc passwd.json"),
        ('a/b\\c:d*e?"<f>|g.json', "a b c d e f g.json"),
        ("日本 été.md", "日本 été.md"),
        ("???.md", "foresight.md"),
        (".md", "foresight.md"),
        ("line\nbreak.md", "line break.md"),
    ],
)
def test_a_name_is_one_that_every_system_takes(wished: str, name: str) -> None:
    assert file_name(wished) == name
