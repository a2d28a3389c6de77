"""The shape of the fused kernels' work: fixed by the model and the device, never by a step's rows.

SPAN and GROUP_SPANS decide what is summed in which order, and are the same everywhere. The tiles decide which
matrix instruction does it, so they are chosen once for a model: by head size, type and the device's shared memory.
How many spans one program does (`spans_per_program`) changes no bit, and is chosen for every pass.
"""

from dataclasses import dataclass, replace

SPAN = 256
"""Positions that are summed from nothing, tile by tile: four tiles, enough to keep loads in flight."""

GROUP_SPANS = 8
"""Spans that are folded into one sum before the groups are: long enough that few partial sums are written for many
rows (1 MiB for 64 rows of 32 heads of 128), short enough that 32k keys of 8 heads make 128 programs."""

BUSY = 64
"""Programs that keep a device busy whose multiprocessors are not known."""

HOPPER = 9
"""Major compute capability of the cards whose matrix unit takes 64 rows from 4 warps."""

_RESERVED = 2048
"""Bytes of shared memory that the compiler takes for itself, with room to spare."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Rows and keys of a tile, warps, and how many tiles are loaded ahead."""

    rows: int
    keys: int
    warps: int
    stages: int

    def __post_init__(self) -> None:
        if SPAN % self.keys or min(self.rows, self.keys) < 16:
            raise ValueError(f"tiles must be of 16 or more and divide a span of {SPAN}, got {self}")


def choose_tiles(size: int, value_size: int, itemsize: int, shared_memory: int, major: int = HOPPER) -> Tiles:
    """For heads of these sizes, in values of so many bytes, on a device of this compute capability (its major
    number) with so much shared memory per program."""
    wide = max(padded(size), padded(value_size))
    if itemsize == 4:
        # No tensor core multiplies float32 without rounding it first: few rows, so that one row wastes little.
        shape = Tiles(rows=16, keys=32 if wide <= 128 else 16, warps=4, stages=2)
    elif wide <= 128:
        # 64 rows by 4 warps are one warpgroup: Hopper's own matrix instruction. On other cards 4 warps have too few
        # registers for heads of 128: up to 760 bytes a thread were spilled as compiled, with 8 warps up to 8.
        shape = Tiles(rows=64, keys=64, warps=4 if major == HOPPER or wide <= 64 else 8, stages=3)
    else:
        # 64 rows of 256 values, twice (span and group), fill the registers of 4 warps; 8 hold them.
        shape = Tiles(rows=64, keys=32, warps=8, stages=3)
    # Hopper reads rows from shared memory, older cards from registers; there is room for either.
    room = shared_memory - _RESERVED - shape.rows * padded(size) * itemsize
    stage = shape.keys * (padded(size) + padded(value_size)) * itemsize
    return replace(shape, stages=max(1, min(shape.stages, room // stage)))


def finish_warps(value_size: int, itemsize: int) -> int:
    """Warps of a program that folds a row's sums: wide heads in float32 would not fit the registers of 4."""
    return 8 if padded(value_size) * itemsize >= 1024 else 4


def padded(size: int) -> int:
    """A head's values in a tile: a power of two, 16 at least. 80 -> 128."""
    return max(16, 1 << (size - 1).bit_length())


def busy_programs(multiprocessors: int) -> int:
    """How many programs keep a device busy: two on each multiprocessor, one computing while the other reads."""
    return 2 * multiprocessors or BUSY


def spans_per_program(positions: int, blocks: int, busy: int = BUSY) -> int:
    """A whole group where so many positions and blocks (of rows and key heads) make enough programs of that."""
    groups = -(-positions // (SPAN * GROUP_SPANS))
    return GROUP_SPANS if groups * blocks >= busy else 1
