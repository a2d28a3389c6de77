"""Where errors become words and exit codes: 2 for an impossible argument, 1 for a failure, never a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from app.errors import AppError, BadOption


@contextmanager
def sentences() -> Iterator[None]:
    """Show an AppError as its sentence on standard error, and end with its exit code."""
    try:
        yield
    except AppError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, BadOption) else 1) from error


@contextmanager
def impossible_values() -> Iterator[None]:
    """Turn a value that a message refuses into a BadOption."""
    try:
        yield
    except ValueError as error:
        raise BadOption(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
