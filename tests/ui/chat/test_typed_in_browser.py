"""Nothing that is typed is lost: while it is sent, while a reply is written, through a reload and a kill."""

import sqlite3
import threading
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

import pytest

from app.conversation import Reply
from app.database.data_folder import data_dir_or_default
from app.database.files import FILE_NAME
from app.settings import Settings, SettingsFile
from app.ui import Services
from app.values.messages import ModelChoice, Request
from tests.accessibility import grave_by_day_and_by_night
from tests.fakes import ScriptedEngine
from tests.page_driver import LAST, PageDriver
from tests.support.app_process import AppProcess
from tests.support.waiting import until

pytestmark = pytest.mark.browser
BOX = "#message textarea"
SECONDS = 300.0


class HesitantEngine(ScriptedEngine):
    """Takes no request before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()
        self.may.set()

    def submit(self, request: Request, reply: Reply) -> None:
        assert self.may.wait(SECONDS)
        super().submit(request, reply)


@pytest.fixture
def engine() -> HesitantEngine:
    return HesitantEngine()


def shown(person: PageDriver, box: str) -> None:
    """Wait until this stands in the box."""
    script = "text => document.querySelector('#message textarea')?.value === text"
    person.page.wait_for_function(script, arg=box, timeout=SECONDS * 1000)


def test_what_is_typed_while_a_message_is_sent_stays_and_is_sent_next(
    person: PageDriver, engine: HesitantEngine
) -> None:
    engine.may.clear()
    person.send("One")
    shown(person, "")
    person.page.type(BOX, "Two")
    person.page.keyboard.press("Enter")
    person.page.wait_for_timeout(300)
    assert person.page.input_value(BOX) == "Two", "it is sent when the first one is"
    engine.may.set()
    person.page.wait_for_function("document.querySelectorAll('#messages article.user').length === 2")
    shown(person, "")
    said = person.page.locator("#messages article.user .said").all_inner_texts()
    assert said == ["One", "Two"]


def test_a_refused_message_comes_back_before_what_was_typed_meanwhile(
    person: PageDriver, engine: HesitantEngine
) -> None:
    person.ask("One")
    engine.words.context = 20
    person.page.evaluate("document.querySelector('#message textarea').focus()")
    person.send("two " * 40)
    person.page.wait_for_selector("#chat-question .question")
    person.page.keyboard.press("Escape")
    shown(person, ("two " * 40).strip())


def test_a_queue_is_shown_edited_and_kept_by_a_stop_and_a_reload(
    person: PageDriver, engine: HesitantEngine
) -> None:
    engine.words.context = 100_000
    engine.step_limit = 1
    person.send("One")
    person.page.wait_for_selector("#stop", state="visible")
    for text in ("Two\nin two lines", "Three"):
        person.page.fill(BOX, text)
        person.page.wait_for_selector("#send >> text=Send next")
        person.page.click("#send")
        person.page.wait_for_selector(f".queue li >> text={text.split()[0]}")
    assert "2 messages will be sent after this reply" in person.text("#queue")
    assert grave_by_day_and_by_night(person.page) == []
    person.page.click("#stop")
    person.page.wait_for_selector("#queue >> text=Stopped. 2 messages wait until you send them.")
    person.page.fill(BOX, "half a thought")
    person.reload()
    person.page.wait_for_selector("#queue >> text=2 messages wait")
    shown(person, "half a thought")
    person.page.click(".queue li >> nth=0 >> [data-do=queue-edit]")
    shown(person, "Two\nin two lines")
    assert grave_by_day_and_by_night(person.page) == []
    engine.step_limit = inf
    person.page.click(".queue [data-do=queue-send]")
    person.page.wait_for_function("document.querySelectorAll('#messages article.user').length === 3")
    said = person.page.locator("#messages article.user .said").all_inner_texts()
    assert said == ["One", "half a thought", "Three"]
    assert person.page.input_value(BOX) == "Two\nin two lines"


def test_an_edited_question_and_opened_details_outlive_a_reload_but_not_those_of_a_private_chat(
    person: PageDriver,
) -> None:
    box, edit = ".message.user .editor textarea", ".message.user footer [data-show=editor]"
    for button in ("#new-chat", "#new-private-chat"):
        person.page.click(button)
        person.page.wait_for_selector("#welcome")
        person.ask("One")
        assert person.page.locator(".editor:not([hidden]), .details:not([hidden])").count() == 0
        person.press("Details")
        person.page.hover(".message.user")
        person.page.click(edit)
        person.page.fill(box, "An edited question")
    assert "An edited" in person.page.input_value(box)
    person.page.click(".chat-line >> nth=1 >> .open")
    person.page.wait_for_function("location.hash === '#/chat/1'")
    person.reload()
    person.page.wait_for_function(
        "box => document.querySelector(box)?.value === 'An edited question'", arg=box
    )
    assert person.page.locator(f"{LAST} .details:not([hidden])").count() == 1
    kept = person.page.evaluate("sessionStorage['foresight-boxes']")
    assert kept.count("An edited question") == 1


def test_the_draft_of_another_chat_never_replaces_what_is_typed(person: PageDriver) -> None:
    person.ask("One")
    person.page.fill(BOX, "of the first")
    person.begin_chat()
    shown(person, "")
    person.page.type(BOX, "of the new")
    person.open_chat("One")
    shown(person, "of the first")
    person.begin_chat()
    shown(person, "of the new")


def test_a_chat_that_is_opened_again_at_once_has_what_was_left_in_it(
    person: PageDriver, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.ask("One")
    drafts, may = services.conversations.drafts, threading.Event()
    keep, chat = drafts.keep, services.chat

    def keep_late(chat: int, text: str) -> None:
        assert may.wait(SECONDS)
        keep(chat, text)

    monkeypatch.setattr(drafts, "keep", keep_late)
    script = """() => {
        const box = document.querySelector("#message textarea");
        box.value = "half a thought";
        box.dispatchEvent(new Event("input", { bubbles: true }));
        document.querySelector("#new-chat").click();
    }"""
    person.page.evaluate(script)
    person.page.wait_for_selector("#welcome")
    person.page.click(".chat-line .open >> text=One")
    until(lambda: services.chat == chat)
    person.page.wait_for_timeout(500)  # enough to draw the chat with an older draft
    may.set()
    person.page.wait_for_selector("#messages .said >> text=One")
    shown(person, "half a thought")
    until(lambda: drafts.of(chat) == "half a thought" and not drafts.of(0))


def draft_in(data_dir: Path) -> str:
    """Read the draft of a new chat from the app's file."""
    with closing(sqlite3.connect(data_dir / FILE_NAME)) as file:
        (text,) = file.execute("SELECT text FROM draft WHERE chat = 0").fetchone() or ("",)
        return str(text)


def test_a_draft_outlives_a_kill_right_after_the_last_key(browser: Any, tmp_path: Path) -> None:
    folder = data_dir_or_default(tmp_path / "data")
    SettingsFile(folder).save(
        Settings(ModelChoice("far", server="http://127.0.0.1:9"))
    )  # so no model is loaded
    with AppProcess(folder) as app:
        with PageDriver(browser, app.url) as person:
            person.page.type(BOX, "half a thought, and th", delay=20)
            app.kill()
            person.page.type(BOX, "e rest of it")
            app.start()
            person.page.goto(app.url)
            shown(person, "half a thought, and the rest of it")
            person.page.type(BOX, " and more")
            until(lambda: draft_in(folder) == "half a thought, and the rest of it and more")
        with PageDriver(browser, app.url) as person:
            shown(person, "half a thought, and the rest of it and more")


def test_a_new_chat_where_one_is_shown_leaves_the_box_alone_and_what_is_sent_at_once_is_no_draft(
    person: PageDriver, services: Services
) -> None:
    script = """async () => {
        const box = document.querySelector("#message textarea");
        const drawn = new Promise((done) =>
            document.addEventListener("foresight-drawn", ({ detail }) => "draft" in detail && done()));
        document.querySelector("#new-chat").click();
        box.value = "words of their own";
        box.dispatchEvent(new Event("input", { bubbles: true }));
        await drawn;
        await new Promise(requestAnimationFrame);
        return box.value;
    }"""
    assert person.page.evaluate(script) == "words of their own"
    drafts = services.conversations.drafts
    text = "Wörter und noch mehr. " * 2_000
    person.page.fill(BOX, text)
    until(lambda: drafts.of(0) == text)
    assert person.page.evaluate("'isLost' in document.body.dataset") is False
    script = """() => {
        const box = document.querySelector("#message textarea");
        box.value = "Newer";
        box.dispatchEvent(new Event("input", { bubbles: true }));
        box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    }"""
    person.page.evaluate(script)
    until(lambda: services.chat)
    until(lambda: not drafts.of(services.chat) and not drafts.of(0))
    shown(person, "")
