"""Runs an action of the page and turns its errors into sentences: the page's edge."""

from collections.abc import Callable
from typing import TypeVar

from app.errors import AppError, impossible_values

Notify = Callable[[str], None]
"""Shows a sentence to the person as a toast."""
RELOAD = "Foresight was restarted since this page was opened. Reload the page. Your text stays in its box."
Result = TypeVar("Result")
Default = TypeVar("Default")


def try_or_notify(notify: Notify, action: Callable[[], Result], default: Default) -> Result | Default:
    """Return the action's result. If it fails, show why and return `default`."""
    try:
        with impossible_values():
            return action()
    except AppError as error:
        notify(str(error))
        return default


def succeeded(notify: Notify, action: Callable[[], object]) -> bool:
    """Run the action and return whether it succeeded. If it fails, show why."""

    def run() -> bool:
        action()
        return True

    return try_or_notify(notify, run, False)
