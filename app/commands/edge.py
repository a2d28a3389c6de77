"""Where errors become words and exit codes: 2 for an impossible argument, 1 for a failure, never a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from app.commands.printing import say
from app.errors import AppError, BadOption


@contextmanager
def sentences() -> Iterator[None]:
    """Show an AppError as its sentence on standard error, and end with its exit code."""
    try:
        yield
    except AppError as error:
        say(f"Error: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, BadOption) else 1) from error
