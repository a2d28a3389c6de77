"""Output on the console: JSON for programs, columns for people, progress bars, and errors as sentences.

Untrusted text is printed through `printable`, because a terminal obeys control characters: ESC ] 52 writes to the
clipboard.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from io import TextIOWrapper
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from app.errors import AppError, BadOption

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LATE_CONTROLS = re.compile(r"[\x7f-\x9f]")
"""Control characters that Python's JSON encoder does not escape."""


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Print an AppError on standard error and exit: code 2 for an impossible argument, 1 for a failure."""
    try:
        yield
    except AppError as error:
        print_text(f"Error: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, BadOption) else 1) from error


def printable(text: str) -> str:
    """Replace control characters, except line feeds and tabs, by U+FFFD."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def print_text(text: str, *, err: bool = False, is_line: bool = True) -> None:
    """Print a text with its control characters replaced."""
    typer.echo(printable(text), err=err, nl=is_line)


def print_json(value: Any) -> None:
    """Print a value, with the dataclasses in it, as JSON."""
    typer.echo(as_json(value))


def print_result(is_json: bool, value: Any, *texts: str) -> None:
    """Print a value as JSON, or else these texts, each on lines of its own; empty texts are left out."""
    if is_json:
        print_json(value)
    else:
        for text in filter(None, texts):
            print_text(text)


def as_json(value: Any) -> str:
    """Encode a value as JSON. Escapes all non-ASCII characters if standard output cannot encode one of them."""
    text = json.dumps(value, ensure_ascii=False, default=_to_dict)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, default=_to_dict)
    return _LATE_CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def replace_unprintable_characters() -> None:
    """Print question marks from now on for characters that the encoding of the output lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def columns(rows: Iterable[Iterable[str]]) -> str:
    """Align rows in columns; the last column is not padded."""
    lines = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def progress_bar(*columns: ProgressColumn) -> Progress:
    """Make a progress bar that disappears at its end. The bar is shown only if standard error is a terminal.

    Without `columns` it shows the elapsed time."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", table_column=Column()),  # a Column wraps long descriptions
        BarColumn(),
        *(columns or (TimeElapsedColumn(),)),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _to_dict(value: Any) -> Any:
    return asdict(value) if hasattr(value, "__dataclass_fields__") else str(value)
