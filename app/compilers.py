"""Finds the machine's C compiler."""

import shutil
from collections.abc import Callable

Which = Callable[[str], str | None]
"""The name of a program -> where it lies, if it does."""

COMPILERS = ("cc", "gcc", "clang")


def find_compiler(which: Which = shutil.which) -> str | None:
    """Where the first compiler lies; None if there is none."""
    return next(filter(None, map(which, COMPILERS)), None)
