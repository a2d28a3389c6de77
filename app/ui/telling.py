"""What a person asked for is done, or why it was not is said: here the page's edge turns errors into sentences."""

from collections.abc import Callable
from typing import TypeVar

from app.errors import AppError, impossible_values

Say = Callable[[str], None]
"""Shows a sentence to the person in passing, without taking anything away."""
RELOAD = "Foresight was started anew since this page was opened: reload the page. Your text stays in its box."
Done = TypeVar("Done")
Instead = TypeVar("Instead")


def attempt(say: Say, do: Callable[[], Done], instead: Instead) -> Done | Instead:
    """What it returns; where it fails, why is said, and the answer is `instead`."""
    try:
        with impossible_values():
            return do()
    except AppError as error:
        say(str(error))
        return instead


def was_done(say: Say, deed: Callable[[], object]) -> bool:
    """Whether it was done; why it was not is said."""

    def done() -> bool:
        deed()
        return True

    return attempt(say, done, False)
