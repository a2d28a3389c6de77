"""The CPU's kernels, compiled and declared."""

from ctypes import CDLL
from pathlib import Path

from app.engine.layers.cpu_kernels import declared
from app.engine.machine.compiling import Compiled, Source, cache_folder, compiled, once

SOURCE = Source(
    Path(__file__).with_name("kernels.c"), ("-fopenmp",), otherwise="Weights of 8 bits take longer on the CPU"
)


@once
def compiled_kernels() -> Compiled[CDLL]:
    """`kernels.c`, compiled, or why not."""
    library, note = compiled(SOURCE, CDLL, cache_folder())
    return Compiled(library and declared(library), note)


def cpu_kernels() -> CDLL | None:
    """The compiled kernels; None where they cannot be had."""
    return compiled_kernels().library
