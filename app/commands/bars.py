"""Bars on standard error."""

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn


def progress_bar(*columns: ProgressColumn) -> Progress:
    """A bar that vanishes when done, and shows nothing where nobody watches; without columns, the time it took."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *(columns or (TimeElapsedColumn(),)),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
