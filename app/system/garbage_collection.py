"""Spares the garbage collector the many objects that last until the app ends."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collecting_later() -> Iterator[None]:
    """Turn the garbage collector off while many lasting objects are made, so that these take less time.

    Later collections ignore all objects that exist at the end of the block."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
