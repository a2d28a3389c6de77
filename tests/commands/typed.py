"""`python run.py …` as a person types it, answered in this process; `command` is for one of its own."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import typer
from typer.main import get_command
from typer.testing import CliRunner

from app.commands.console import replace_unprintable_characters
from app.main import cli

CHECKOUT = Path(__file__).parents[2]
Done = subprocess.CompletedProcess[str]


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "run.py", *map(str, arguments)]


def typed(
    *arguments: str | Path,
    said: str = "",
    environment: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
) -> Done:
    """What came of it; `said` is typed into it, and the environment is added to this process's.

    `encoding` is the one of the terminal."""
    words = [*map(str, arguments)]
    result = CliRunner(charset=encoding).invoke(_main, ["--", *words], said.encode(encoding), environment)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(words, result.exit_code, result.stdout, result.stderr)


_main = typer.Typer(add_completion=False)


@_main.command(context_settings={"ignore_unknown_options": True})
def _run(words: list[str]) -> None:
    """What app.main.main does that concerns these streams alone."""
    replace_unprintable_characters()
    get_command(cli)(words, prog_name="run.py")
