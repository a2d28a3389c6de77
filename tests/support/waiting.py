"""Waiting for what another thread, process or page does: for a state, and never for a time."""

from collections.abc import Callable, Collection
from threading import Thread
from threading import enumerate as running_threads
from time import monotonic, sleep

PATIENCE = 300.0
"""Seconds until something that was waited for is called missing: many more than a loaded machine needs."""


def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so; fail where it never is."""
    end = monotonic() + PATIENCE
    while not is_so():
        assert monotonic() < end, "what was waited for did not come about"
        sleep(0.005)


def new_threads(before: Collection[Thread]) -> list[Thread]:
    """Return the running threads that are not among those of `before`, which other tests may have left."""
    return [thread for thread in running_threads() if thread not in before]
