"""Values on standard output: as JSON for programs, as columns for people."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import typer


def show_json(value: Any) -> None:
    """Print a value, with the dataclasses in it, as JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=_plain))


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
