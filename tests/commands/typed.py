"""`python run.py …` as a person types it: a process of its own, with what it answers."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
SECONDS = 120
Done = subprocess.CompletedProcess[str]


def command(*arguments: str | Path) -> list[str]:
    """The words of a command line."""
    return [sys.executable, "run.py", *map(str, arguments)]


def typed(
    *arguments: str | Path,
    said: str = "",
    environment: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
) -> Done:
    """What came of it; `said` is typed into it, and None is this process's environment.

    `encoding` is the one of the terminal."""
    return subprocess.run(
        command(*arguments),
        cwd=CHECKOUT,
        env=environment,
        input=said,
        capture_output=True,
        encoding=encoding,
        check=False,
        timeout=SECONDS,
    )
