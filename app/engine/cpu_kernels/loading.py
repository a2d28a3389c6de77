"""The CPU's kernels, compiled and declared."""

from ctypes import CDLL
from functools import cache
from pathlib import Path

from app.engine.compiling import Source, cache_folder, compiled
from app.engine.cpu_kernels.launching import declared

SOURCE = Source(
    Path(__file__).with_name("kernels.c"), ("-fopenmp",), otherwise="the CPU keeps torch's kernels"
)


@cache
def cpu_kernels() -> CDLL | None:
    """The compiled kernels; None where they cannot be had."""
    library = compiled(SOURCE, CDLL, cache_folder())
    return library and declared(library)
