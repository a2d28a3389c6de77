"""Runs an action of the page and turns its errors into sentences: the page's edge."""

import logging
from collections.abc import Callable
from typing import TypeVar

from app.errors import AppError, first_line

Notify = Callable[[str], None]
"""Shows a sentence to the person as a toast."""
RELOAD = "Foresight was restarted since this page was opened. Reload the page. Your text stays in its box."
Result = TypeVar("Result")
Default = TypeVar("Default")
log = logging.getLogger(__name__)


def try_or_notify(notify: Notify, action: Callable[[], Result], default: Default) -> Result | Default:
    """Return the action's result. If it fails, show why and return `default`.

    Values that the person entered are checked where they are read, with `impossible_values`. Any other error is a
    bug: its traceback goes to the log."""
    try:
        return action()
    except AppError as error:
        notify(str(error))
    except Exception as error:
        log.exception("An action of the page failed")
        notify(unexpected(error))
    return default


def unexpected(error: Exception) -> str:
    """Return the sentence for an error that nobody expected."""
    return (
        f"That did not work because of a bug in Foresight ({first_line(error)}). "
        "The log has the details. Settings → About shows where it is."
    )


def succeeded(notify: Notify, action: Callable[[], object]) -> bool:
    """Run the action and return whether it succeeded. If it fails, show why."""

    def run() -> bool:
        action()
        return True

    return try_or_notify(notify, run, False)
