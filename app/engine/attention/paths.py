"""Tables that list each row's keys, drafted and committed, by position.

Every row of a block sees the whole prefix and the rows of its path: one for each further position, up to the
row's own. So a row has exactly one key for each position; only the newest few may lie out of order in the cache:

    slot      0 1 2 3 4 | 5 6 7 8        a prefix of 5, then a tree: rows 1 and 2 are children of 0, row 3 of 2
    position  0 1 2 3 4 | 5 6 6 7

    row 3 (position 7), NEWEST = 4:   border 4   newest keys in the slots 4 5 7 8   (positions 4 5 6 7)
    row 1 (position 6)                border 3                            3 4 5 6   (positions 3 4 5 6)

The key of each position before the border is in the slot of the same number. The border and the order of the
newest keys depend only on the row's position, so a sum over the keys is rounded as if the text had been committed
row by row. If a key out of order is NEWEST or more positions before the row, the row gathers a larger multiple of
NEWEST keys, which includes that key, and the row's border is earlier.
"""

from ctypes import byref, c_int32
from struct import pack

import numpy as np
from numpy.typing import NDArray

from app.engine.block.block import MAX_DEPTH, Block
from app.engine.cpu_kernels import cpu_kernels

NEWEST = MAX_DEPTH + 1
"""Number of keys that each row gathers one by one; the last of these is the row's own key. A row that must gather
more keys gathers several groups of this size."""

POSITION, BORDER, SLOTS = 0, 1, 2
"""Columns of the table of paths. From SLOTS on they are slots of the newest keys, oldest first; -1 if missing."""

Paths = NDArray[np.int32]
"""[T, 2 + n * NEWEST]: a row's position, its border, and the slots of its newest keys."""


def row_paths(prefix_length: int, block: Block) -> Paths:
    """Make the table of a block. Raises ValueError if a row sees two keys at one position.

    C code makes the table, because every step needs a new one. numpy makes it if a compiler is missing, for blocks
    with gaps, and for blocks with rows that may gather more than NEWEST keys."""
    library, rows = cpu_kernels(), len(block)
    if library is not None:
        table = np.empty((rows, SLOTS + NEWEST), dtype=np.int32)
        numbers = pack(f"={2 * rows}q", *block.positions, *block.parents)
        first = byref(c_int32.from_buffer(table.data))  # three times as fast as numpy's `ctypes.data`
        if library.row_paths(prefix_length, rows, NEWEST, numbers, first):
            return table
    return _any_paths(prefix_length, block)


def _any_paths(prefix_length: int, block: Block) -> Paths:
    positions, visible = np.array(block.positions), block.visible()
    rows = np.arange(len(positions))
    # [T]: how many of the block's first rows each row sees that are in the slots of their positions
    is_there = positions == prefix_length + rows
    in_place = np.logical_and.accumulate(visible & is_there, axis=1).sum(axis=1)
    out_of_order = visible & (rows >= in_place[:, None])
    oldest = np.where(out_of_order, positions, positions[:, None]).min(axis=1)
    groups = -(-(positions + 1 - oldest) // NEWEST)  # of NEWEST keys: 1 for all but very deep rows
    # A row that skips positions has no keys right after the rows in place, so its border is at their end.
    borders = np.minimum(positions + 1 - NEWEST * groups, prefix_length + in_place).clip(min=0)
    width = NEWEST * int(groups.max())
    at = positions[:, None] + 1 - width + np.arange(width)  # positions of the newest keys [T, width]
    slots = np.where(at < prefix_length, at.clip(min=-1), -1)
    row, key = np.nonzero(visible)
    columns = positions[key] - positions[row] + width - 1
    is_new = columns >= 0
    slots[row[is_new], columns[is_new]] = prefix_length + key[is_new]
    # Two keys of a row at one position would share a slot of the table, which then lacks one of them.
    found = ((slots >= prefix_length) & (at >= borders[:, None])).sum(axis=1)
    wrong = np.flatnonzero(found + (borders - prefix_length).clip(min=0) != visible.sum(axis=1))
    if wrong.size:
        seen = positions[visible[wrong[0]]].tolist()
        raise ValueError(f"a row must see one key at each position, but row {wrong[0]} sees keys at {seen}")
    return np.column_stack((positions, borders, slots)).astype(np.int32)
