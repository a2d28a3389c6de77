"""The parts of `tools.page_soak`: actions of a user's tabs, and independent counts of them."""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

from app.database.files import FILE_NAME
from tests.support.app_process import AppProcess

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
LAST_ANSWER = "#messages article.assistant.last footer"
DRAWN = "#status .status"
OPEN_TABS = 8
"""Maximum number of tabs that are open at once while tabs come and go."""
CRASH_MS = 10_000
ATTEMPTS, NOT_NOW = 50, "Not attached to an active page"
"""How often a reload is repeated that Chromium refuses between two documents, and the message of this refusal."""
VIEWS = ("chat", "models", "documents", "race", "settings")


@dataclass(frozen=True, slots=True)
class Counted:
    """How often something was asked for, and how often it happened by an independent count."""

    what: str
    asked: int
    happened: int

    def __str__(self) -> str:
        return f"{self.what}: {self.happened} of {self.asked}"


class Visitor:
    """A user with one browser, whose tabs share its connections."""

    def __init__(self, context: Any, app: AppProcess) -> None:
        self._context = context
        self._app = app
        self._opened = 0
        self._reloaded = 0
        self._asked = 0
        self._killed = 0
        self._crashed: set[Any] = set()
        self._before = app.loads(), questions(app.data_dir)

    def chat(self) -> None:
        """Open a tab and have a question answered there."""
        page = self._open()
        page.wait_for_selector("#status .ready", timeout=180_000)
        page.click("#new-chat")
        page.wait_for_selector("#welcome", state="visible")
        self._ask(page, "How does lookahead decoding work?")
        page.wait_for_selector(LAST_ANSWER, timeout=120_000)
        page.close()

    def reload_often(self, times: int) -> tuple[Counted, ...]:
        """Reload one tab, every third time before it is drawn."""
        page = self._open()
        for number in range(times):
            self._reload(page, is_drawn=number % 3 != 0)
        page.close()
        return self._counted()

    def many_tabs(self, tabs: int) -> tuple[Counted, ...]:
        """Open this number of tabs at once. A further tab must still answer a question."""
        pages = [self._open() for _ in range(tabs)]
        self.chat()
        alive = sum(page.locator(DRAWN).count() for page in pages)
        for page in pages:
            page.close()
        return (*self._counted(), Counted("tabs alive at once", tabs, alive))

    def killed_tabs(self, tabs: int) -> tuple[Counted, ...]:
        """Open this number of tabs, and kill the process of each."""
        for page in [self._open() for _ in range(tabs)]:
            self._kill(page)
            page.close()
        return self._counted()

    def sleeping(self, seconds: float) -> tuple[Counted, ...]:
        """Stop the browser for a while, as on a sleeping laptop. Its tab must then continue by itself."""
        page = self._open()
        processes = [one["id"] for one in _processes(self._context)]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        sleep(seconds)
        stopped = sum(_state(process) == "T" for process in processes)
        for process in processes:
            os.kill(process, signal.SIGCONT)
        self._ask(page, "I want to book a table for two")
        page.wait_for_selector(LAST_ANSWER, timeout=120_000)
        page.close()
        return (*self._counted(), Counted("processes asleep", len(processes), stopped))

    def coming_and_going(self, seconds: float) -> tuple[Counted, ...]:
        """Open, use, reload, kill and close tabs at random."""
        chance, pages, end = Random(7), list[Any](), monotonic() + seconds
        actions: dict[str, Callable[[Any], None]] = {
            "reload": lambda page: self._reload(page, is_drawn=False),
            "look": lambda page: page.click(f"#to-{chance.choice(VIEWS)}"),
            "ask": self._begin_chat,
            "kill": self._kill,
            "close": lambda page: page.close(),
        }
        while monotonic() < end:
            if len(pages) < OPEN_TABS:
                pages.append(self._open())
            page, action = chance.choice(pages), chance.choice(list(actions))
            actions[action](page)
            # Several tabs may share a process.
            for gone in [one for one in pages if one.is_closed() or one in self._crashed]:
                pages.remove(gone)
                gone.close()
            sleep(chance.random())
        for page in pages:
            page.close()
        return self._counted()

    def _counted(self) -> tuple[Counted, ...]:
        loads, asked = self._before
        found = (
            Counted("pages asked for", self._opened + self._reloaded, self._app.loads() - loads),
            Counted("of these reloads", self._reloaded, self._app.loads() - loads - self._opened),
            Counted("questions", self._asked, questions(self._app.data_dir) - asked),
            Counted("tabs killed", self._killed, len(self._crashed)),
        )
        return tuple(one for one in found if one.asked or one.happened)

    def _open(self) -> Any:
        """Open a tab, and wait until it is drawn."""
        page = self._context.new_page()
        page.on("crash", lambda: self._crashed.add(page))
        page.goto(self._app.url)
        page.wait_for_selector(DRAWN)
        self._opened += 1
        return page

    def _reload(self, page: Any, is_drawn: bool) -> None:
        from playwright.sync_api import Error

        for attempt in range(ATTEMPTS):
            try:
                page.reload(wait_until="load" if is_drawn else "commit")
                break
            except Error as error:  # nothing was requested, because one document was just replacing another
                if NOT_NOW not in str(error) or attempt + 1 == ATTEMPTS:
                    raise
                page.wait_for_timeout(100)
        if is_drawn:
            page.wait_for_selector(DRAWN)
        self._reloaded += 1

    def _begin_chat(self, page: Any) -> None:
        page.click("#to-chat")
        page.click("#new-chat")  # in a chat that is longer than the context, the app would ask what to do
        page.wait_for_selector("#welcome", state="visible")
        self._ask(page, "How do I list all files with ls?")

    def _ask(self, page: Any, question: str) -> None:
        """Ask a question, and wait until the page shows it."""
        page.fill("#message textarea", question)
        page.press("#message textarea", "Enter")
        page.wait_for_selector("#messages article.user")
        self._asked += 1

    def _kill(self, page: Any) -> None:
        """Kill the process of a tab. Counts other tabs that share the process, too."""
        from playwright.sync_api import TimeoutError as StillAlive

        before = len(self._crashed)
        with suppress(StillAlive):
            kill_tab(page)
        self._killed += max(1, len(self._crashed) - before)


def kill_tab(page: Any) -> None:
    """Kill the process of a tab. Raises Playwright's TimeoutError if it does not end."""
    from playwright.sync_api import Error

    with page.expect_event("crash", timeout=CRASH_MS), suppress(Error):
        page.goto("chrome://crash")  # this fails, because the page crashes


def questions(data_dir: Path) -> int:
    with closing(sqlite3.connect(data_dir / FILE_NAME)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM message WHERE role = 'user'").fetchone()
    return int(count)


def _processes(context: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = context.browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")[
        "processInfo"
    ]
    return found


def _state(process: int) -> str:
    """Return the letter of a process's state under Linux, such as T for a stopped process."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def running_chromium() -> Iterator[Any]:
    """Start a Chromium, and close it at the end."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@contextmanager
def browsing() -> Iterator[Any]:
    """Start a Chromium with one profile, so that all tabs share its connections."""
    with running_chromium() as chromium:
        context = chromium.new_context(viewport={"width": 1366, "height": 768})
        context.set_default_timeout(60_000)
        yield context
