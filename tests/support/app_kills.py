"""Kills the app (kill -9) at random moments while it writes, indexes and downloads, starts it again and looks for
what is missing.

A question counts as acknowledged once it stands in the thread. Of a reply, what the page showed a second before the
kill must be there again; what came within the last second may be lost.

A kill meets a reply if the reply is interrupted afterwards, and the download if bytes came in the second before. It
kills until so many kills have met both, and says of all how many met what.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from tests.models_registry.hub_server import FakeHub, running
from tests.models_registry.model_files import model_files
from tests.models_registry.test_installed_models import CONFIG
from tests.support.app_process import AppProcess
from tests.support.kill_beside import MODEL, Download, Papers

LONGEST = 3.0
"""Seconds from sending a question to the kill, at most."""
WEIGHTS = 20_000_000
"""Numbers in the model that is downloaded, four bytes each."""
SECONDS_A_KILL = 40.0
"""For which the download of all kills must last, on a busy machine, too."""
MOST_KILLS = 3
"""How many kills are tried at most for each that is to meet a reply and the download."""
MAY_BE_LOST = 1.0
"""Seconds of a reply."""
ENDLESS = "Count from 1 to 500: 1 2 3 4 5 6 7 8 9 10 11 12"
"""The demo model's likeliest answer to this has no end: decoded plainly it lasts longer than LONGEST."""
STEP_MS, READY_MS = 120_000, 300_000
STARTED = "document.querySelectorAll('#messages .user').length > 0"
WRITTEN = "document.querySelector('#live .said')?.innerText ?? ''"


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: when, whether the question was acknowledged, what the reply had to keep, and what was found.

    `downloaded` are the bytes that came in the second before, `indexing` the documents that were not ready."""

    number: int
    after: float
    is_acknowledged: bool
    due: str
    downloaded: int = 0
    indexing: int = 0
    kept: str = ""
    state: str = ""
    faults: tuple[str, ...] = ()

    @property
    def cuts_reply(self) -> bool:
        return self.state == "interrupted"

    @property
    def meets_both(self) -> bool:
        """Whether a reply was being written and a download ran."""
        return self.cuts_reply and self.downloaded > 0


class Killer:
    """Chats with one app in a browser, and kills it."""

    def __init__(
        self, browser: Any, app: AppProcess, chance: Random, download: Download | None = None
    ) -> None:
        self._browser = browser
        self._app = app
        self._chance = chance
        self._papers = Papers(app.data_dir / "foresight.sqlite")
        self._download = download
        self._acknowledged = 0
        self._chats = 0

    def prepare(self) -> None:
        """Have replies written plainly and long; the choice is stored like a person's."""
        page = self._open()
        page.click("#lookahead input")
        page.click("#side-tab-settings")
        page.fill("#max-tokens input", "900")
        page.press("#max-tokens input", "Tab")
        page.wait_for_timeout(500)
        if self._download:
            self._download.begin(page)
        page.context.close()

    def kill(self, number: int) -> Kill:
        """Ask, kill, start again, look."""
        killed = self._chat_and_kill(number, self._chance.uniform(0, LONGEST))
        self._app.start()
        return self._look(killed)

    def faults_at_the_end(self) -> list[str]:
        """What is missing once nobody kills it any more."""
        page = self._open()
        if self._download:
            self._download.go_on(page)
        faults = self._papers.faults_at_the_end()
        return faults + (self._download.faults_at_the_end() if self._download else [])

    def _chat_and_kill(self, number: int, after: float) -> Kill:
        page = self._open()
        if self._download:
            self._download.go_on(page)
        self._papers.add(page, number)
        page.click("#new-chat")
        page.wait_for_selector("#welcome")
        page.fill("#message textarea", ENDLESS)
        page.press("#message textarea", "Enter")
        began, seen, is_there = perf_counter(), [(0.0, "")], False
        while perf_counter() - began < after:
            if self._download:
                self._download.look()
            is_there = is_there or page.evaluate(STARTED)
            written = page.evaluate(WRITTEN)
            seen.append(
                (perf_counter() - began, written)
            )  # only now is it sure: asking the page may take long
        indexing = self._papers.unready()
        downloaded = self._download.latest() if self._download else 0
        self._app.kill()
        killed = perf_counter() - began
        page.context.close()
        due = max((text for at, text in seen if at <= killed - MAY_BE_LOST), key=len, default="")
        self._acknowledged += is_there
        return Kill(number, killed, is_there, due, downloaded, indexing)

    def _look(self, kill: Kill) -> Kill:
        """What a person finds in the newest chat, and what SQLite says."""
        stored, page, kept = Stored.read(self._app.data_dir), self._open(), ""
        page.wait_for_selector(".chat-line, #chats .hint")
        lines = page.locator(".chat-line .open")
        is_new, self._chats = lines.count() > self._chats, lines.count()
        if is_new:
            lines.first.click()
            page.wait_for_selector("#messages .assistant.last footer")
            kept = page.locator("#messages .assistant.last .said").inner_text()
        endings = page.locator("#messages .assistant.last .ending").all_inner_texts()
        page.context.close()
        faults = self._papers.faults() + ([stored.damage] if stored.damage else [])
        if stored.questions < self._acknowledged or (kill.is_acknowledged and not is_new):
            faults.append(f"{stored.questions} questions are left of {self._acknowledged} acknowledged ones")
        if is_new:
            faults += _faults_of_reply(kill, kept, stored.state, " ".join(endings))
        return replace(kill, kept=kept, state=stored.state if is_new else "", faults=tuple(faults))

    def _open(self) -> Any:
        page = self._browser.new_context(viewport={"width": 1366, "height": 768}).new_page()
        page.set_default_timeout(STEP_MS)
        page.goto(self._app.url)
        page.wait_for_selector("#status .ready", timeout=READY_MS)
        page.wait_for_selector("#chats nav")
        return page


@dataclass(frozen=True, slots=True)
class Stored:
    """The database, read past the app: its questions, the newest reply's state, and what is wrong with it."""

    questions: int
    state: str
    damage: str

    @classmethod
    def read(cls, data_dir: Path) -> "Stored":
        with closing(sqlite3.connect(data_dir / "foresight.sqlite")) as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
            broken = connection.execute("PRAGMA foreign_key_check").fetchall()
            (questions,) = connection.execute("SELECT count(*) FROM message WHERE role = 'user'").fetchone()
            newest = connection.execute(
                "SELECT state FROM message WHERE role = 'assistant' ORDER BY id DESC LIMIT 1"
            ).fetchone()
        damage = "" if found == ["ok"] and not broken else f"the database is damaged: {found} {broken}"
        return cls(questions, newest[0] if newest else "", damage)


def _faults_of_reply(kill: Kill, kept: str, state: str, ending: str) -> list[str]:
    faults = []
    if not plainly(kept).startswith(plainly(kill.due)):
        faults.append(f"more than a second is missing: kept {kept[-60:]!r} of {kill.due[-60:]!r}")
    if state != "done" and (state != "interrupted" or "ended before" not in ending):
        faults.append(f"not marked as interrupted: {state}, {ending!r}")
    return faults


def plainly(text: str) -> str:
    """Letters and digits alone: what is drawn while it is written may differ in marks."""
    return re.sub(r"\W+", "", text)


@contextmanager
def downloading(folder: Path, kills: int) -> Iterator[tuple[AppProcess, Download]]:
    """The app, and a hub on this machine that has a model too large for so many kills."""
    files = {**model_files(WEIGHTS), "config.json": CONFIG}
    own = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    pace = 4 * WEIGHTS / (kills * MOST_KILLS * SECONDS_A_KILL)
    with running(FakeHub({MODEL: files}, pace=pace)) as hub:
        environment = {**own, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(folder / "hf")}
        with AppProcess(folder / "data", environment) as app:
            hurry = partial(setattr, hub, "pace", 0.0)
            yield app, Download(folder / "hf" / "hub", files["model.safetensors"], hurry)
