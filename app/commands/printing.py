"""Values on standard output: as JSON for programs, as columns for people."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from io import TextIOWrapper
from typing import Any

import typer


def show_json(value: Any) -> None:
    """Print a value, with the dataclasses in it, as JSON."""
    typer.echo(as_json(value))


def as_json(value: Any) -> str:
    """A value as JSON that standard output can show: what its encoding has not becomes an escape."""
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, default=_plain)
    return text


def show_all_characters() -> None:
    """From now on print a question mark for what the terminal's encoding has not, rather than end."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def table(rows: Iterable[Iterable[str]]) -> str:
    """Rows in columns; the last column is as long as it likes."""
    lines = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _plain(value: Any) -> Any:
    return asdict(value) if hasattr(value, "__dataclass_fields__") else str(value)
