"""A step's inputs laid out in C (`step_inputs.c`): the numbers of `packed_inputs`, in a tenth of the time."""

from array import array
from ctypes import PyDLL, byref, c_int32, c_int64, c_void_p
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.engine.attention.paths import BORDER, NEWEST, POSITION, SLOTS
from app.engine.block.block import Block
from app.engine.graphs.step_inputs import NUMBERS_PER_ROW, Pack, packed_inputs
from app.engine.machine.compiling import Compiled, Source, cache_folder, compiled, once

SOURCE = Source(
    Path(__file__).with_name("step_inputs.c"),
    (f"-DPOSITION={POSITION}", f"-DBORDER={BORDER}", f"-DSLOTS={SLOTS}", f"-DNEWEST={NEWEST}"),
    otherwise="Steps are laid out in Python, which takes several times as long",
)


@once
def compiled_inputs() -> Compiled[PyDLL]:
    """`step_inputs.c`, compiled, or why not."""
    found = compiled(SOURCE, PyDLL, cache_folder())
    if found.library is not None:
        found.library.fill.argtypes = c_int64, c_int64, c_void_p, c_void_p
        found.library.fill.restype = c_int32
    return found


def best_pack(found: Compiled[PyDLL] | None = None) -> Pack:
    """Laid out in C where there is a compiler, else in Python."""
    library = (found or compiled_inputs()).library
    if library is None:
        return packed_inputs

    def packed(block: Block, prefix_length: int) -> NDArray[np.int64]:
        rows = len(block)
        lines = array("q", block.tokens + block.positions + block.wanted + block.parents)
        numbers = np.empty(rows * NUMBERS_PER_ROW, dtype=np.int64)
        # numpy's own way to the address, `ctypes.data`, takes three times as long when caches are cold.
        first = byref(c_int64.from_buffer(numbers.data))
        is_filled = library.fill(prefix_length, rows, lines.buffer_info()[0], first)
        return numbers if is_filled else packed_inputs(block, prefix_length)

    return packed
