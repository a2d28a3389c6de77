"""Everything the model is asked is a block of rows.

Every row sees the whole committed prefix, and inside the block exactly the rows that `visible` says.
A draft tree of the current token 7 with two guesses, 8 and then 9, and 5 instead of 8:

    row  token  position   sees rows          visible
    0    7      10         0                  1 . . .
    1    8      11         0 1                1 1 . .
    2    9      12         0 1 2              1 1 1 .
    3    5      11         0     3            1 . . 1

Plain decoding is a block of one row, prompt lookup a chain, lookahead a tree and a window in one block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Visible = NDArray[np.bool_]
"""[T, T]: row i sees row j."""
MAX_DEPTH = 31
"""The longest line of guesses in a tree. Attention finds a row's newest keys one by one: these and its own, and
triton's ranges are powers of two."""


@dataclass(frozen=True, slots=True)
class Block:
    """What one forward pass is fed: tokens[T], positions[T], visible[T, T] and the rows whose logits are read."""

    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    visible: Visible
    wanted: tuple[int, ...]

    def __post_init__(self) -> None:
        rows = len(self.tokens)
        if rows == 0 or len(self.positions) != rows or self.visible.shape != (rows, rows):
            raise ValueError(
                f"a block needs as many positions and visible rows as tokens, got {rows} tokens, "
                f"{len(self.positions)} positions, visible {self.visible.shape}"
            )
        if self.wanted and not 0 <= min(self.wanted) <= max(self.wanted) < rows:
            raise ValueError(f"wanted rows must lie in the block of {rows} rows, got {self.wanted}")

    def __len__(self) -> int:
        return len(self.tokens)


def chain_block(tokens: Sequence[int], start: int, wanted: tuple[int, ...]) -> Block:
    """Rows that each see all rows before them, at positions start, start + 1, ..."""
    rows = len(tokens)
    return Block(
        tokens=tuple(tokens),
        positions=tuple(range(start, start + rows)),
        visible=np.tri(rows, dtype=np.bool_),
        wanted=wanted,
    )


def apart_block(tokens: Sequence[int], position: int) -> Block:
    """Rows at one position that see the prefix and themselves."""
    rows = len(tokens)
    return Block(tuple(tokens), (position,) * rows, np.eye(rows, dtype=np.bool_), tuple(range(rows)))


def padded(block: Block, rows: int, wanted: int) -> Block:
    """The block padded to `rows` rows, of which `wanted` are read. New rows come last and change nothing.

    New rows see the prefix and themselves and are seen by nobody; row 0 is read again and again."""
    more = rows - len(block)
    visible = np.eye(rows, dtype=np.bool_)
    visible[: len(block), : len(block)] = block.visible
    return Block(
        tokens=block.tokens + block.tokens[:1] * more,
        positions=block.positions + block.positions[:1] * more,
        visible=visible,
        wanted=block.wanted + (0,) * (wanted - len(block.wanted)),
    )


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading items agree: ([1, 2, 3], [1, 2, 5, 6]) -> 2."""
    pairs = zip(left, right, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
