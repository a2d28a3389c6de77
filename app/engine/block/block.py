"""A block of rows: the input of every forward pass.

A row is one token at one position. It sees the whole committed prefix, itself, its parent row and every row that
its parent sees. An example is a draft tree after the current token 7, with the guesses 8 and then 9, and 5 as an
alternative to 8:

    row  token  position  parent   sees rows          visible
    0    7      10        -1       0                  1 . . .
    1    8      11         0       0 1                1 1 . .
    2    9      12         1       0 1 2              1 1 1 .
    3    5      11         0       0     3            1 . . 1

Plain decoding uses a block of one row, prompt lookup a chain, lookahead a tree and a window in one block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from operator import ge
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Visible = NDArray[np.bool_]
"""[T, T]: whether row i sees row j."""
MAX_DEPTH = 31
"""Maximum number of guesses on a path of a tree. With the row of the current token a path has 32 rows, because
Triton's ranges must be powers of two."""


@dataclass(frozen=True, slots=True)
class Block:
    """The input of one forward pass: tokens [T], positions [T], parents [T], and the rows whose logits are read.

    A row's parent is an earlier row; -1 means that it has none."""

    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    parents: tuple[int, ...]
    wanted: tuple[int, ...]

    def __post_init__(self) -> None:
        rows = len(self.tokens)
        if rows == 0 or len(self.positions) != rows or len(self.parents) != rows:
            raise ValueError(
                f"a block needs tokens, and as many positions and parents, not {rows} tokens, "
                f"{len(self.positions)} positions, {len(self.parents)} parents"
            )
        if min(self.parents) < -1 or any(map(ge, self.parents, count())):
            raise ValueError(f"a row's parent must come before it; the parents are {self.parents}")
        if self.wanted and not 0 <= min(self.wanted) <= max(self.wanted) < rows:
            raise ValueError(f"wanted rows must lie in the block of {rows} rows, not {self.wanted}")

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Whether each row sees all rows before it."""
        return self.parents == tuple(range(-1, len(self) - 1))

    def visible(self) -> Visible:
        """Compute which rows each row sees [T, T]."""
        if self.is_chain:
            return np.tri(len(self), dtype=np.bool_)
        rows = list[int]()
        for row, parent in enumerate(self.parents):
            rows.append(1 << row | (rows[parent] if parent >= 0 else 0))
        width = -(-len(self) // 8)
        packed = np.frombuffer(b"".join(row.to_bytes(width, "little") for row in rows), dtype=np.uint8)
        bits = np.unpackbits(packed.reshape(-1, width), axis=1, count=len(self), bitorder="little")
        return bits.view(np.bool_)


def chain_block(tokens: Sequence[int], start: int, wanted: tuple[int, ...]) -> Block:
    """Make a block in which each row sees all rows before it, at positions start, start + 1, ..."""
    rows = len(tokens)
    return Block(tuple(tokens), tuple(range(start, start + rows)), tuple(range(-1, rows - 1)), wanted)


def siblings_block(tokens: Sequence[int], position: int) -> Block:
    """Make a block of rows at the same position, all wanted. Each sees only the prefix and itself."""
    rows = len(tokens)
    return Block(tuple(tokens), (position,) * rows, (-1,) * rows, tuple(range(rows)))


def padded(block: Block, rows: int, wanted: int) -> Block:
    """Pad the block to `rows` rows, and the tuple of wanted rows to length `wanted` by repeating row 0.

    The added rows come last. They see only the prefix and themselves, and no other row sees them."""
    more = rows - len(block)
    return Block(
        tokens=block.tokens + block.tokens[:1] * more,
        positions=block.positions + block.positions[:1] * more,
        parents=block.parents + (-1,) * more,
        wanted=block.wanted + (0,) * (wanted - len(block.wanted)),
    )


def newest_on_path(block: Block, count: int) -> NDArray[np.int64]:
    """List the newest `count` rows on each row's path [T, count]; the row itself comes last.

    Committed rows have negative numbers; -1 is the newest committed row."""
    paths = list[tuple[int, ...]]()
    committed = tuple(range(-count, 0))
    for row, parent in enumerate(block.parents):
        before = paths[parent] if parent >= 0 else committed
        paths.append((*before[1:], row))
    return np.array(paths, dtype=np.int64)


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Count the leading items that agree: ([1, 2, 3], [1, 2, 5, 6]) -> 2."""
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    pairs = zip(left, right, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), shorter)


class CacheSlots(NamedTuple):
    """A layer's buffers of keys and values [1, heads, capacity, size], and the slots for a block: from `begin` on.

    A CUDA graph instead writes to the slots in the tensor `indices` [T], which is None without a graph."""

    keys: Tensor
    values: Tensor
    begin: int
    indices: Tensor | None

    def write(self, keys: Tensor, values: Tensor) -> None:
        """Write the block's keys and values, each [1, heads, T, size]."""
        for buffer, states in ((self.keys, keys), (self.values, values)):
            if self.indices is None:
                buffer[:, :, self.begin : self.begin + states.shape[2]] = states
            else:
                buffer.index_copy_(2, self.indices, states)

    def up_to(self, rows: int) -> tuple[Tensor, Tensor]:
        """Return keys and values up to the block's first `rows` rows; for a recorded step, the whole buffers."""
        if self.indices is not None:
            return self.keys, self.values
        return self.keys[:, :, : self.begin + rows], self.values[:, :, : self.begin + rows]
