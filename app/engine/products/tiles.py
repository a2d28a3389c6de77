"""The shape of a product's work: fixed by the weight, its type and the device, never by a step's rows.

One row reads as much weight as 128 do, so what counts is that the weight streams: enough programs that every
multiprocessor reads, enough tiles ahead that it never waits, and tiles wide enough that states, which are read for
each of them, stay a small share. For Linear(4096 -> 4096) in bfloat16 on 132 multiprocessors:

    weight rows a program   parts of K   programs   states read, of 64 rows, against the weight
            32                  1          128                 2 x
           128                  4          128               0.5 x       and sums of 4 MiB written and read

These are reasons, not measurements: no card was at hand.
"""

from dataclasses import dataclass

MOST_ROWS = 128
"""Rows of one launch: as many as a block may have."""

COLUMNS = 128
"""Rows of the weight in a tile: the out features of a program. States are then read half as often as the weight is
at 64 rows; 256 would leave too few programs, or too many parts to add up."""

FEWEST = 4
"""Tiles that a part of K has at least: fewer, and its sums cost more than its products."""

MOST_PARTS = 8
"""Parts of K at most: the last program adds them up alone."""

BUSY = 0.75
"""Programs for each multiprocessor from which on K is cut no further."""

_RESERVED = 2048
"""Bytes of shared memory that the compiler takes for itself, with room to spare."""


@dataclass(frozen=True, slots=True)
class Card:
    """What decides about tiles: the compute capability's major number, multiprocessors, bytes for one program."""

    major: int
    multiprocessors: int
    shared_memory: int


@dataclass(frozen=True, slots=True)
class Parts:
    """K in `count` parts of `span` columns each, the last perhaps shorter."""

    count: int
    span: int


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows, warps, and how many tiles are loaded ahead."""

    rows: int
    warps: int
    stages: int


def inner(itemsize: int) -> int:
    """Columns of a tile: 128 bytes of each row, what a warp reads of it best."""
    return 128 // itemsize


def choose_parts(outs: int, ins: int, itemsize: int, card: Card) -> Parts:
    """In how many parts K is summed: as few as keep the device busy."""
    block = inner(itemsize)
    tiles, steps = -(-outs // COLUMNS), -(-ins // block)
    count = 1
    while (
        count < MOST_PARTS and tiles * count < BUSY * card.multiprocessors and steps // (2 * count) >= FEWEST
    ):
        count *= 2
    span = -(-steps // count) * block
    return Parts(-(-ins // span), span)


def choose_tile(rows: int, itemsize: int, card: Card) -> Tile:
    """The tile for so many rows. On one card all of them are multiplied by the same matrix instruction.

    Hopper's is wgmma, 64 rows by all columns of the tile, one for each warpgroup: 64 rows with 4 warps, 128 with 8.
    Ampere's and Ada's is mma, 16 rows by 8 columns, whatever the tile. Blackwell's has 64 or 128 rows, two
    instructions, so there all tiles have 64; float32 is multiplied without matrix units, in float32's own order.
    """
    sizes = {9: (64, 128), 10: (64,)}.get(card.major, (16, 64, 128))
    if itemsize == 4:
        sizes = (16,)
    size = next((size for size in sizes if rows <= size), sizes[-1])
    stage = (size + COLUMNS) * 128
    return Tile(size, 8 if size == 128 else 4, max(1, min(4, (card.shared_memory - _RESERVED) // stage)))
