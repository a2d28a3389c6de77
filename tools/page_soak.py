"""Opens and closes many pages, and measures what remains of them: `python -m tools.page_soak --reloads 200`.

It runs the real app with the demo model, and a real Chromium: one tab is reloaded again and again, many tabs are
open at once, tabs are killed, the browser sleeps (SIGSTOP), and pages come and go for minutes. Only the requested
parts are run. Before and after each part it measures the app at rest: threads, open files, memory, and its
processor time in percent of a core. After each part a new page must answer a question.

Events are counted independently: pages by the server's log of requests, killed tabs by Chromium's own reports,
questions by the database, stopped processes by /proc. If these counts differ from what was done, the exit code is
1. Linux only, because of /proc.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep

from tests.support.app_process import AppProcess
from tests.support.soak_parts import Counted, Visitor, browsing
from tools.processor_time import seconds_of

SETTLE_SECONDS, MOST_SETTLE_SECONDS = 10.0, 180.0
SETTLED = 0.05
"""Maximum share of a core at rest. Above this share the app is still busy, for example measuring its model."""
REST_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Rest:
    """The app at rest; `processor` is in percent of a core, `memory` in MiB."""

    after: str
    threads: int
    files: int
    memory: float
    processor: float
    counted: tuple[Counted, ...] = ()

    def __str__(self) -> str:
        found = (
            f"{self.memory:.0f} MiB, {self.files} files, {self.threads} threads, {self.processor}% of a core"
        )
        return "\n    ".join((f"{self.after}: at rest {found}", *map(str, self.counted)))


def rest(process: int, after: str, counted: tuple[Counted, ...] = ()) -> Rest:
    """Return what the app uses once it has settled, or after MOST_SETTLE_SECONDS."""
    end = monotonic() + MOST_SETTLE_SECONDS
    while _share(process, SETTLE_SECONDS) > SETTLED and monotonic() < end:
        pass
    used = _share(process, REST_SECONDS) * 100
    status = Path(f"/proc/{process}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    files = len(list(Path(f"/proc/{process}/fd").iterdir()))
    memory = int(fields["VmRSS"].split()[0]) / 1024
    return Rest(after, int(fields["Threads"]), files, memory, round(used, 2), counted)


def _share(process: int, seconds: float) -> float:
    """Return the share of a core that the process uses during these seconds."""
    before = seconds_of(process)
    sleep(seconds)
    return (seconds_of(process) - before) / seconds


def parts(asked: argparse.Namespace) -> dict[str, Callable[[Visitor], tuple[Counted, ...]]]:
    every: dict[str, tuple[float, Callable[[Visitor], tuple[Counted, ...]]]] = {
        f"{asked.reloads} reloads": (asked.reloads, lambda visitor: visitor.reload_often(asked.reloads)),
        f"{asked.tabs} tabs": (asked.tabs, lambda visitor: visitor.many_tabs(asked.tabs)),
        f"{asked.killed} tabs killed": (asked.killed, lambda visitor: visitor.killed_tabs(asked.killed)),
        f"{asked.sleep} s asleep": (asked.sleep, lambda visitor: visitor.sleeping(asked.sleep)),
        f"{asked.minutes} minutes of pages coming and going": (
            asked.minutes,
            lambda visitor: visitor.coming_and_going(asked.minutes * 60),
        ),
    }
    return {name: part for name, (amount, part) in every.items() if amount}


def run(app: AppProcess, asked: argparse.Namespace) -> list[Rest]:
    """Run the parts, and print the state of the app at rest after each. The first part is one chat."""
    found = []
    chosen = {"one chat": lambda _visitor: (), **parts(asked)}
    for name, part in chosen.items():
        with browsing() as context:
            visitor = Visitor(context, app)
            counted = part(visitor)
            visitor.chat()
        found.append(rest(app.process, name, counted))
        print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reloads", type=int, default=0, help="number of reloads of one tab")
    parser.add_argument("--tabs", type=int, default=0, help="number of tabs at once")
    parser.add_argument("--killed", type=int, default=0, help="number of tabs whose process is killed")
    parser.add_argument("--sleep", type=float, default=0, help="seconds for which the browser is stopped")
    parser.add_argument("--minutes", type=float, default=0, help="minutes of pages coming and going")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    if not parts(asked):
        parser.error("no part is requested: see the options")
    with (
        tempfile.TemporaryDirectory() as folder,
        AppProcess(Path(folder) / "data", tells_requests=True) as app,
    ):
        found = run(app, asked)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n", encoding="utf-8")
    if wrong := [one for at in found for one in at.counted if one.asked != one.happened]:
        sys.exit("counts differ from what was done:\n    " + "\n    ".join(map(str, wrong)))


if __name__ == "__main__":
    main()
