"""Values on standard output: as JSON for programs, as columns for people.

Documents, chats, replies and the hub are strangers to the terminal, which obeys control characters: ESC ] 52 writes
to the clipboard. So all that is printed goes through `shown`.
"""

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import asdict
from io import TextIOWrapper
from typing import Any

import typer

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LATE_CONTROLS = re.compile(r"[\x7f-\x9f]")
"""Those that JSON leaves as they are."""


def shown(text: str) -> str:
    """A text that a terminal shows and does not obey: its controls but line ends and tabs are U+FFFD."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def say(text: str, *, err: bool = False, is_line: bool = True) -> None:
    """Print a text as it can be shown."""
    typer.echo(shown(text), err=err, nl=is_line)


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
    return _LATE_CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


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
