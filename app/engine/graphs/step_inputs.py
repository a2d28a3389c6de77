"""All inputs of a captured step that change from step to step, in one buffer on the device.

    int64 [rows]    tokens | positions | slots | wanted
    int32           the table of paths [rows, 2 + NEWEST], behind them

The slots say where the rows' keys are written. One copy fills the buffer; its source is pinned memory, which torch
does not reuse before the copy is done, so that nothing waits.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from app.engine.attention.paths import NEWEST, SLOTS, row_paths
from app.engine.block.block import Block
from app.engine.machine.hardware import upload_into

WIDTH = SLOTS + NEWEST
"""Columns of the table. Blocks whose rows find keys in more places are not for recorded steps."""

_LINES = 4
NUMBERS_PER_ROW = _LINES + WIDTH // 2
"""int64 numbers that a row takes, those of the table included."""

Pack = Callable[[Block, int], NDArray[np.int64]]
"""(a block of which all rows are read, the prefix's length) -> what the buffer holds; more numbers than that where
the table has more than WIDTH columns."""


def packed_inputs(block: Block, prefix_length: int) -> NDArray[np.int64]:
    """The `Pack` that runs everywhere."""
    slots = range(prefix_length, prefix_length + len(block))
    lines = np.array((*block.tokens, *block.positions, *slots, *block.wanted), dtype=np.int64)
    return np.concatenate((lines, row_paths(prefix_length, block).reshape(-1).view(np.int64)))


class StepInputs:
    """The inputs of steps of so many rows: tensors that stay where they are."""

    def __init__(self, rows: int, device: torch.device, pack: Pack = packed_inputs) -> None:
        self._rows = rows
        self._pack = pack
        self._buffer = torch.zeros(rows * NUMBERS_PER_ROW, dtype=torch.long, device=device)
        lines = self._buffer[: _LINES * rows].view(_LINES, rows)
        self.tokens, self.positions = lines[0:1], lines[1:2]  # [1, rows], as models take them
        self.slots, self.wanted = lines[2], lines[3]
        self.paths = self._buffer[_LINES * rows :].view(torch.int32).view(rows, WIDTH)

    def fill(self, block: Block, prefix_length: int) -> bool:
        """Send a block of which all rows are read; False, and nothing sent, where the table is too small."""
        if len(block) != self._rows or len(block.wanted) != self._rows:
            raise ValueError(
                f"inputs are for {self._rows} rows, got {len(block)}, of which {len(block.wanted)} are wanted"
            )
        numbers = self._pack(block, prefix_length)
        if len(numbers) != len(self._buffer):
            return False
        upload_into(self._buffer, numbers)
        return True
