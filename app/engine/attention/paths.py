"""Tables that list each row's keys by position, whether they are drafted or committed.

Every row of a block sees the whole prefix and then one row for each further position up to its own: its path. So a
row has exactly one key for each position, and only the newest few may lie out of order in the cache:

    slot      0 1 2 3 4 | 5 6 7 8        prefix of 5, then the rows of a tree: 5, 6 and 7 below it, 8 below 7
    position  0 1 2 3 4 | 5 6 6 7

    row 3 (position 7), NEWEST = 4:   border 4   newest keys in the slots 4 5 7 8   (positions 4 5 6 7)
    row 1 (position 6)                border 3                            3 4 5 6   (positions 3 4 5 6)

The key of each position before the border is in the slot of the same number. The border and the order of the
newest keys depend on the row's position alone, so a sum over the keys is rounded in the same way if the same
text was committed row by row. A row more than NEWEST positions after the prefix, if its path is not simply
the block's first rows, gathers a larger multiple of NEWEST keys, and its border is that much earlier.
"""

from collections.abc import Sequence
from ctypes import byref, c_int32
from struct import pack

import numpy as np
from numpy.typing import NDArray

from app.engine.block.block import MAX_DEPTH, Block, Visible
from app.engine.cpu_kernels import cpu_kernels

NEWEST = MAX_DEPTH + 1
"""Number of keys that each row gathers one by one; the last of them is its own."""

POSITION, BORDER, SLOTS = 0, 1, 2
"""Columns of the table of paths. From SLOTS on: slots of the newest keys, oldest first, -1 if missing."""

Paths = NDArray[np.int32]
"""[T, 2 + n * NEWEST]: a row's position, its border, and the slots of its newest keys."""


def row_paths(prefix_length: int, block: Block) -> Paths:
    """Make the table of a block; raise ValueError for a row that sees two keys at one position."""
    table = _native_paths(prefix_length, block)
    return _python_paths(prefix_length, block) if table is None else table


def _native_paths(prefix_length: int, block: Block) -> Paths | None:
    """Make the table in C, as `_near_paths` does; None without a compiler and for blocks it does not support."""
    library, rows = cpu_kernels(), len(block)
    if library is None:
        return None
    table = np.empty((rows, SLOTS + NEWEST), dtype=np.int32)
    numbers = pack(f"={2 * rows}q", *block.positions, *block.parents)
    first = byref(c_int32.from_buffer(table.data))  # in a third of the time that numpy's `ctypes.data` takes
    return table if library.row_paths(prefix_length, rows, NEWEST, numbers, first) else None


def _python_paths(prefix_length: int, block: Block) -> Paths:
    positions = np.array(block.positions)
    if not _is_without_gaps(prefix_length, block):
        return _far_paths(prefix_length, positions, block.visible())
    if block.is_chain:
        return _chain_paths(positions)
    if max(block.positions) < prefix_length + NEWEST:
        return _near_paths(prefix_length, positions, block.parents)
    return _far_paths(prefix_length, positions, block.visible())


def _far_paths(prefix_length: int, positions: NDArray[np.int64], visible: Visible) -> Paths:
    """Make the table of any block, at the cost of more time than for chains and shallow trees."""
    straight = _straight(prefix_length, positions, visible)
    chunks = _chunks(positions, visible, straight)
    # A row that skips positions has no keys right after its straight part, so its border is at that part's end.
    borders = np.minimum(positions + 1 - NEWEST * chunks, prefix_length + straight).clip(min=0)
    slots = _slots(prefix_length, positions, visible, NEWEST * int(chunks.max()))
    _check(slots, prefix_length, positions, borders, visible)
    return np.column_stack((positions, borders, slots)).astype(np.int32)


def _is_without_gaps(prefix_length: int, block: Block) -> bool:
    """Return whether each row's position follows its parent's, or the prefix if it has no parent."""
    positions = (*block.positions, prefix_length - 1)  # parent -1 stands for the end of the prefix
    return all(
        position == positions[parent] + 1 for position, parent in zip(positions, block.parents, strict=False)
    )


def _chain_paths(positions: NDArray[np.int64]) -> Paths:
    """Make the table of a chain, in which each key is in the slot of its position. It is the fastest case."""
    table = np.empty((len(positions), SLOTS + NEWEST), dtype=np.int32)
    table[:, POSITION] = positions
    table[:, BORDER] = np.maximum(positions + 1 - NEWEST, 0)
    table[:, SLOTS:] = np.maximum(positions[:, None] + np.arange(1 - NEWEST, 1), -1)
    return table


def _near_paths(prefix_length: int, positions: NDArray[np.int64], parents: Sequence[int]) -> Paths:
    """Make the table of a block without gaps whose rows are all within NEWEST positions after the prefix.

    This fast case is for the host, which has little time in a step. A row's newest keys are its parent's
    without the oldest, and its own."""
    rows = len(parents)
    slots = np.arange(prefix_length - NEWEST, prefix_length + rows, dtype=np.int32).clip(min=-1)
    lines = [b""] * rows + [
        slots[:NEWEST].tobytes()
    ]  # parent -1: the prefix; bytes are joined faster than arrays
    for row, (parent, own) in enumerate(zip(parents, slots[NEWEST:].view("V4").tolist(), strict=True)):
        lines[row] = lines[parent][slots.itemsize :] + own
    table = np.empty((rows, SLOTS + NEWEST), dtype=np.int32)
    table[:, POSITION] = positions
    table[:, BORDER] = np.maximum(positions + 1 - NEWEST, 0)
    table[:, SLOTS:] = np.frombuffer(b"".join(lines[:-1]), dtype=np.int32).reshape(rows, NEWEST)
    return table


def _check(
    slots: NDArray[np.int64],
    prefix_length: int,
    positions: NDArray[np.int64],
    borders: NDArray[np.int64],
    visible: Visible,
) -> None:
    """Raise ValueError if the table misses a key of a row, because two of its keys are at one position."""
    width = slots.shape[1]
    gathered = (slots >= prefix_length) & (_newest_positions(positions, width) >= borders[:, None])
    found = gathered.sum(axis=1) + (borders - prefix_length).clip(min=0)
    wrong = np.flatnonzero(found != visible.sum(axis=1))
    if wrong.size:
        raise _two_keys(int(wrong[0]), positions, visible)


def _two_keys(row: int, positions: NDArray[np.int64], visible: Visible) -> ValueError:
    visible_keys = positions[visible[row]].tolist()
    return ValueError(f"a row must see one key at each position, row {row} sees the block's {visible_keys}")


def _newest_positions(positions: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return the positions of each row's newest `width` keys, oldest first: [T, width]."""
    return positions[:, None] + 1 - width + np.arange(width)


def _straight(prefix_length: int, positions: NDArray[np.int64], visible: Visible) -> NDArray[np.int64]:
    """Count for each row how many of the block's first rows it sees without a gap, in their positions' slots:
    [T]."""
    in_place = positions == prefix_length + np.arange(len(positions))
    run: NDArray[np.int64] = np.logical_and.accumulate(visible & in_place, axis=1).sum(axis=1)
    return run


def _chunks(positions: NDArray[np.int64], visible: Visible, straight: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute how many times NEWEST keys each row has to gather: [T], 1 for all but very deep rows."""
    rows = np.arange(len(positions))
    strewn = visible & (rows >= straight[:, None])
    oldest = np.where(strewn, positions, positions[:, None]).min(axis=1)
    needed: NDArray[np.int64] = -(-(positions + 1 - oldest) // NEWEST)
    return needed


def _slots(
    prefix_length: int, positions: NDArray[np.int64], visible: Visible, width: int
) -> NDArray[np.int64]:
    """Return the slots of each row's newest `width` keys by position, -1 for missing keys: [T, width]."""
    at = _newest_positions(positions, width)
    slots = np.where(at < prefix_length, at.clip(min=-1), -1)
    rows, visible_keys = np.nonzero(visible)
    columns = positions[visible_keys] - positions[rows] + width - 1
    is_new = columns >= 0
    slots[rows[is_new], columns[is_new]] = prefix_length + visible_keys[is_new]
    return slots
