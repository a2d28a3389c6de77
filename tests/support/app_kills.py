"""Kills the app (kill -9) at random moments while it writes, indexes and downloads, starts it again, and reports
what is missing.

A question counts as acknowledged once the page shows it. The text that the page showed a second before the kill
must be there again; the text of the last second may be lost.

A kill hits a reply if the reply is marked as interrupted afterwards. It hits the download if bytes arrived in the
second before the kill.
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
"""Maximum number of seconds from sending a question to the kill."""
WEIGHTS = 20_000_000
"""How many numbers the downloaded model has; each takes four bytes."""
SECONDS_A_KILL = 40.0
"""Seconds for which the download lasts for each kill, so that it does not end too early on a busy machine."""
MOST_KILLS = 3
"""Maximum number of kills for each kill that must hit both a reply and the download."""
MAY_BE_LOST = 1.0
"""Seconds of a reply that a kill may lose."""
ENDLESS = "Count from 1 to 500: 1 2 3 4 5 6 7 8 9 10 11 12"
"""The demo model's likeliest answer to this question has no end, so plain decoding takes longer than LONGEST."""
STEP_MS, READY_MS = 120_000, 300_000
STARTED = "document.querySelectorAll('#messages .user').length > 0"
WRITTEN = "document.querySelector('#live .said')?.innerText ?? ''"


@dataclass(frozen=True, slots=True)
class Kill:
    """A kill `after` some seconds. `due` is the text that the reply must keep, and `kept` the text that it kept.

    `downloaded` is the number of bytes that arrived in the second before the kill, and `indexing` the number of
    documents that were not ready. `state` is the state of the reply afterwards, "" without a reply."""

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
        """Turn lookahead off and raise the limit of tokens in the settings, so that replies are long."""
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
        """Ask a question, kill the app, start it again, and return what was found."""
        killed = self._chat_and_kill(number, self._chance.uniform(0, LONGEST))
        self._app.start()
        return self._look(killed)

    def faults_at_the_end(self) -> list[str]:
        """Return what is missing after a while without kills."""
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
            # The time is taken after the page has answered, because its answer may take long.
            seen.append((perf_counter() - began, written))
        indexing = self._papers.unready()
        downloaded = self._download.latest() if self._download else 0
        self._app.kill()
        killed = perf_counter() - began
        page.context.close()
        due = max((text for at, text in seen if at <= killed - MAY_BE_LOST), key=len, default="")
        self._acknowledged += is_there
        return Kill(number, killed, is_there, due, downloaded, indexing)

    def _look(self, kill: Kill) -> Kill:
        """Return the kill with what the page shows in the newest chat, and with the faults of the database."""
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
    """What the database contains: the number of questions, the state of the newest reply, and a damage, if any."""

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
    """Return only the letters and digits of a text, because a growing text may be drawn with other marks."""
    return re.sub(r"\W+", "", text)


@contextmanager
def downloading(folder: Path, kills: int) -> Iterator[tuple[AppProcess, Download]]:
    """Start the app, and a hub on this machine whose model takes longer to download than this many kills take."""
    files = {**model_files(WEIGHTS), "config.json": CONFIG}
    own = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    pace = 4 * WEIGHTS / (kills * MOST_KILLS * SECONDS_A_KILL)
    with running(FakeHub({MODEL: files}, pace=pace)) as hub:
        environment = {**own, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(folder / "hf")}
        with AppProcess(folder / "data", environment) as app:
            hurry = partial(setattr, hub, "pace", 0.0)
            yield app, Download(folder / "hf" / "hub", files["model.safetensors"], hurry)
