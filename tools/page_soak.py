"""Pages that come and go, and what they leave behind: `python -m tools.page_soak`.

The real app with the demo model, and a real Chromium: one tab reloaded again and again, many tabs at once, tabs
that are killed, a browser that sleeps (SIGSTOP), then pages coming and going for minutes. Before, between and after
it measures the app at rest: threads, open files, memory, and its processor time in percent of a core. After each
part a new page must answer a question. Linux alone, where /proc tells all this.
"""

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from tools.app_process import AppProcess
from tools.processor_time import TICKS

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
LAST_ANSWER = "#messages article.assistant.last footer"
SETTLE_SECONDS = 10.0
REST_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Rest:
    """The app with nobody looking; `processor` in percent of a core, `memory` in MiB."""

    after: str
    threads: int
    files: int
    memory: float
    processor: float


def rest(process: int, after: str) -> Rest:
    """What the app holds and does once it has settled."""
    sleep(SETTLE_SECONDS)
    before = _seconds(process)
    sleep(REST_SECONDS)
    used = (_seconds(process) - before) / REST_SECONDS * 100
    status = Path(f"/proc/{process}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    files = len(list(Path(f"/proc/{process}/fd").iterdir()))
    return Rest(after, int(fields["Threads"]), files, int(fields["VmRSS"].split()[0]) / 1024, round(used, 2))


def _seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def opened(context: Any, url: str) -> Any:
    """A new tab, once it is drawn."""
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("#status .status")
    return page


def chat(context: Any, url: str) -> None:
    """A new tab has a question answered."""
    page = opened(context, url)
    page.wait_for_selector("#status .ready", timeout=180_000)
    page.click("#new-chat")
    page.wait_for_selector("#welcome", state="visible")
    page.fill("#message textarea", "How does lookahead decoding work?")
    page.press("#message textarea", "Enter")
    page.wait_for_selector(LAST_ANSWER, timeout=120_000)
    page.close()


def reload_often(context: Any, url: str, times: int) -> None:
    """One tab, reloaded; every third time before it is drawn."""
    page = opened(context, url)
    for number in range(times):
        page.goto(page.url, wait_until="commit" if number % 3 == 0 else "load")
        if number % 3:
            page.wait_for_selector("#status .status")
    page.close()


def many_tabs(context: Any, url: str, tabs: int) -> None:
    """So many tabs at once, the last of which must work."""
    pages = [opened(context, url) for _ in range(tabs)]
    chat(context, url)
    for page in pages:
        page.close()


def killed_tabs(context: Any, url: str, tabs: int) -> None:
    """So many tabs whose process dies, without a word from the page."""
    for page in [opened(context, url) for _ in range(tabs)]:
        with suppress(Exception):  # it reports its own death
            page.goto("chrome://crash", timeout=2_000)
        page.close()


def sleeping(context: Any, url: str, seconds: float) -> None:
    """A tab of a browser that does nothing for a while, as a laptop that sleeps; it must go on by itself."""
    page = opened(context, url)
    processes = [one["id"] for one in _processes(context)]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    sleep(seconds)
    for process in processes:
        os.kill(process, signal.SIGCONT)
    page.fill("#message textarea", "I want to book a table for two")
    page.press("#message textarea", "Enter")
    page.wait_for_selector(LAST_ANSWER, timeout=120_000)
    page.close()


def _processes(context: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = context.browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")[
        "processInfo"
    ]
    return found


def coming_and_going(context: Any, url: str, seconds: float) -> int:
    """Tabs are opened, used, reloaded, killed and closed at random; how many were opened."""
    chance, pages, count, end = random.Random(7), list[Any](), 0, monotonic() + seconds
    while monotonic() < end:
        if len(pages) < 8:
            pages.append(opened(context, url))
            count += 1
        page = chance.choice(pages)
        action = chance.choice(("reload", "close", "kill", "look", "ask"))
        if action == "reload":
            page.goto(page.url, wait_until="commit")
        elif action == "look":
            page.click(f"#to-{chance.choice(('chat', 'models', 'documents', 'race', 'settings'))}")
        elif action == "ask":
            page.click("#to-chat")
            page.click("#new-chat")  # a chat that outgrew the context would ask what to do
            page.fill("#message textarea", "How do I list all files with ls?")
            page.press("#message textarea", "Enter")
        else:
            pages.remove(page)
            if action == "kill":
                with suppress(Exception):  # it reports its own death
                    page.goto("chrome://crash", timeout=2_000)
            page.close()
        sleep(chance.random())
    for page in pages:
        page.close()
    return count


@contextmanager
def browsing() -> Iterator[Any]:
    """A Chromium with one profile, so that all tabs share its connections."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        context = chromium.new_context(viewport={"width": 1366, "height": 768})
        context.set_default_timeout(60_000)
        yield context
        chromium.close()


def run(app: AppProcess, asked: argparse.Namespace) -> list[Rest]:
    """All parts, and the app at rest after each."""
    parts: dict[str, Callable[[Any], object]] = {
        "one chat": lambda context: chat(context, app.url),
        f"{asked.reloads} reloads": lambda context: reload_often(context, app.url, asked.reloads),
        f"{asked.tabs} tabs": lambda context: many_tabs(context, app.url, asked.tabs),
        f"{asked.killed} tabs killed": lambda context: killed_tabs(context, app.url, asked.killed),
        f"{asked.sleep} s asleep": lambda context: sleeping(context, app.url, asked.sleep),
        f"{asked.minutes} minutes of pages coming and going": lambda context: coming_and_going(
            context, app.url, asked.minutes * 60
        ),
    }
    found = []
    for name, part in parts.items():
        with browsing() as context:
            part(context)
            chat(context, app.url)
        found.append(rest(app.process, name))
        print(found[-1], flush=True)  # noqa: T201
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reloads", type=int, default=500)
    parser.add_argument("--tabs", type=int, default=50)
    parser.add_argument("--killed", type=int, default=30)
    parser.add_argument("--sleep", type=float, default=60)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, AppProcess(Path(folder) / "data") as app:
        found = run(app, asked)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
