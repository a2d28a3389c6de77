"""The `triton` backend: launches the fused kernels of `kernels.py`.

The host never waits for the device during a pass: the grid depends only on the tensors' shapes, and the kernels
read the values that change from step to step from the table of paths. The order of the kernels' sums depends on the
model and the device, never on a step's rows. SPAN and GROUP_SPANS decide this order, and are constants. The tiles
decide the matrix instruction, and are chosen once for each size and type of heads.
"""

import sys
from dataclasses import dataclass, field, replace
from math import e as euler
from math import log2

import torch
from torch import Tensor

from app.engine.attention.kernels import finish_kernel, fold_kernel, prefix_kernel
from app.engine.attention.paths import NEWEST, SLOTS
from app.engine.attention.signature import Attend, BlockView, LayerCache, Scoring

SPAN = 256
"""Positions of a span, whose sum starts from zero. A span has several tiles, so that loads and products overlap."""

GROUP_SPANS = 8
"""Number of spans in a group. The spans' sums are folded into the group's sum, and then the groups' sums are
folded. A group is long enough that few partial sums are written for many rows (1 MiB a group for 64 rows of 32
heads of 128), and short enough that 32k keys of 8 heads make 128 programs."""

MANY_SPANS = 64
"""From this number of spans on, a kernel folds them into groups first."""

BUSY = 64
"""Number of programs that is assumed to keep a device busy if its multiprocessors are not known."""

HOPPER = 9
"""Major compute capability of the GPUs whose matrix unit takes 64 rows from 4 warps."""

SCRATCH = 1 << 26
"""Maximum bytes of a layer's partial sums. Larger blocks, such as a prompt's chunks, are computed in parts."""

_EVEN = 2
"""Parts of a block begin at a multiple of this many rows, so that their tables of paths are aligned for kernels."""

_RESERVED = 2048
"""Upper bound of the bytes of shared memory that the compiler uses itself."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Rows and keys of a tile, warps of a program, and how many tiles are loaded ahead."""

    rows: int
    keys: int
    warps: int
    stages: int

    def __post_init__(self) -> None:
        if SPAN % self.keys or min(self.rows, self.keys) < 16:
            raise ValueError(f"tiles need at least 16 rows and keys, and keys must divide a span of {SPAN}")


def choose_tiles(size: int, value_size: int, itemsize: int, shared_memory: int, major: int = HOPPER) -> Tiles:
    """Choose tiles for heads of these sizes, with values of `itemsize` bytes.

    A program may use `shared_memory` bytes of shared memory; `major` is the device's major compute capability."""
    wide = max(padded(size), padded(value_size))
    if itemsize == 4:
        # Tensor cores would round float32 first, so they are not used. Tiles have few rows, so that a single
        # row wastes little. With heads of 256 values, registers spill on Blackwell with 4 warps, on Ampere with 8.
        warps = 8 if wide > 128 and major > HOPPER else 4
        shape = Tiles(rows=16, keys=32 if wide <= 128 else 16, warps=warps, stages=2)
    elif wide <= 128:
        # 64 rows with 4 warps are one warpgroup, as Hopper's own matrix instruction needs. On other GPUs 4
        # warps have too few registers for heads of 128: the compiled kernel spilled up to 760 bytes a thread,
        # and with 8 warps up to 8 bytes.
        shape = Tiles(rows=64, keys=64, warps=4 if major == HOPPER or wide <= 64 else 8, stages=3)
    else:
        # Except on Hopper, 8 warps have too few registers for two sums (span and group) of 64 rows of 256 values.
        shape = Tiles(rows=64 if major == HOPPER else 32, keys=32, warps=8, stages=3)
    # Hopper reads rows from shared memory, older GPUs from registers; room is reserved in both cases.
    room = shared_memory - _RESERVED - shape.rows * padded(size) * itemsize
    stage = shape.keys * (padded(size) + padded(value_size)) * itemsize
    return replace(shape, stages=max(1, min(shape.stages, room // stage)))


def finish_warps(value_size: int, itemsize: int) -> int:
    """Return the warps of a `finish_kernel` program: 4 cannot hold the sums of wide heads in float32."""
    return 8 if padded(value_size) * itemsize >= 1024 else 4


def padded(size: int) -> int:
    """Return the number of values of a head in a tile: the next power of two, at least 16. 80 -> 128."""
    return max(16, 1 << (size - 1).bit_length())


def spans_per_program(positions: int, blocks: int, busy: int = BUSY) -> int:
    """Return the number of spans per program: a whole group if that makes enough programs (`busy`), else 1.

    `blocks` is the number of blocks of rows, times the number of key heads."""
    groups = -(-positions // (SPAN * GROUP_SPANS))
    return GROUP_SPANS if groups * blocks >= busy else 1


@dataclass(frozen=True, slots=True)
class TritonAttention:
    """Attention by our own kernels. A row's result depends, to the last bit, only on the text before it.

    `shared_memory` is what the device has for one program and `scratch` what a layer may allocate, in bytes. `busy`
    programs keep the device busy. `major` is the device's major compute capability. With `many_spans` spans or
    more, groups are folded first."""

    shared_memory: int
    busy: int = BUSY
    scratch: int = SCRATCH
    major: int = HOPPER
    many_spans: int = MANY_SPANS
    _tiles: dict[tuple[int, int, int], Tiles] = field(default_factory=dict)

    def __call__(self, query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        keys, values = _unit_stride(cache.keys), _unit_stride(cache.values)
        query, paths = _unit_stride(query), view.path_table()
        _, heads, rows, _ = query.shape
        out = query.new_empty((1, rows, heads, values.shape[3]))
        kind = (query.shape[3], values.shape[3], query.element_size())
        if kind not in self._tiles:
            self._tiles[kind] = choose_tiles(*kind, self.shared_memory, self.major)
        tiles = self._tiles[kind]
        blocks = -(-rows * heads // keys.shape[1] // tiles.rows) * keys.shape[1]
        spans = spans_per_program(keys.shape[2], blocks, self.busy)
        parts = -(-keys.shape[2] // (SPAN * spans))
        rows_at_once = max(1, self.scratch // (parts * heads * values.shape[3] * 4) // _EVEN) * _EVEN
        is_folded = spans == 1 and parts >= self.many_spans
        for first in range(0, rows, rows_at_once):
            part = slice(first, first + rows_at_once)
            work = _Work(query[:, :, part], keys, values, paths[part], out[:, part], scoring, tiles, spans)
            work.run(parts, is_folded)
        return out

    def variants(self) -> tuple["TritonAttention", ...]:
        """Return backends that together use all compiled variants: their programs sum one span, one group, or one
        span that `fold_kernel` folds into its group."""
        by_span = replace(self, busy=sys.maxsize)
        return by_span, replace(self, busy=1), replace(by_span, many_spans=1)


@dataclass(frozen=True, slots=True)
class _Work:
    """The work for some rows of one layer.

    query [1, H, t, D], keys and values [1, KV, n, ..], paths [t, ..], out [1, t, H, DV]"""

    query: Tensor
    keys: Tensor
    values: Tensor
    paths: Tensor
    out: Tensor
    scoring: Scoring
    tiles: Tiles
    spans: int

    def run(self, parts: int, is_folded: bool) -> None:
        """Launch the kernels one after the other; their result is written to `out`."""
        _, heads, rows, _ = self.query.shape
        shared = self.keys.shape[1]
        packed = rows * (heads // shared)
        peaks = torch.empty((parts, shared, packed), dtype=torch.float32, device=self.query.device)
        mixes = peaks.new_empty((*peaks.shape, self.values.shape[3]))
        states = (self.query, self.keys, self.values, self.paths, peaks, torch.empty_like(peaks), mixes)
        prefix_kernel[(-(-packed // self.tiles.rows), shared, parts)](
            *states,
            packed,
            *self._strides(),
            *_factors(self.scoring),
            **self._constants(),
            BLOCK_M=self.tiles.rows,
            BLOCK_N=self.tiles.keys,
            num_warps=self.tiles.warps,
            num_stages=self.tiles.stages,
            enable_fp_fusion=False,
        )
        constants = {
            **self._constants(),
            "BLOCK_G": padded(heads // shared),
            "GROUP_SPANS": GROUP_SPANS,
            "num_warps": finish_warps(self.values.shape[3], self.values.element_size()),
        }
        if is_folded:
            unused = ("SIZE", "HAS_SOFTCAP", "BLOCK_D", "SPANS")
            fold_kernel[(rows, shared, -(-parts // GROUP_SPANS))](
                *states[3:],
                packed,
                self.paths.stride(0),
                **{name: each for name, each in constants.items() if name not in unused},
                enable_fp_fusion=False,
            )
            constants["SPANS"] = GROUP_SPANS
        sinks = self.scoring.sinks
        finish_kernel[(rows, shared)](
            *states,
            peaks if sinks is None else sinks,
            self.out,
            packed,
            *self._strides(),
            self.paths.shape[1] - SLOTS,
            *_factors(self.scoring),
            **constants,
            HAS_SINKS=sinks is not None,
            NEWEST=NEWEST,
            PLACES=GROUP_SPANS if is_folded else 1,
            enable_fp_fusion=False,
        )

    def _strides(self) -> tuple[int, ...]:
        states = (self.query, self.keys, self.values)
        return (*(stride for each in states for stride in each.stride()[1:3]), self.paths.stride(0))

    def _constants(self) -> dict[str, int | bool]:
        size, value_size = self.query.shape[3], self.values.shape[3]
        return {
            "GROUP": self.query.shape[1] // self.keys.shape[1],
            "SIZE": size,
            "VALUE_SIZE": value_size,
            "WINDOW": self.scoring.window,
            "HAS_SOFTCAP": self.scoring.softcap is not None,
            "BLOCK_D": padded(size),
            "BLOCK_V": padded(value_size),
            "SPAN": SPAN,
            "SPANS": self.spans,
        }


@dataclass(frozen=True, slots=True)
class Interpreted:
    """The kernels in triton's interpreter, for tests. The interpreter misreads bfloat16, so the kernels get
    float32."""

    fused: TritonAttention

    def __call__(self, query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        if query.dtype != torch.bfloat16:
            return self.fused(query, cache, view, scoring)
        wide = LayerCache(cache.keys.float(), cache.values.float())
        return self.fused(query.float(), wide, view, scoring).to(query.dtype)


def on_device(fused: TritonAttention, device: torch.device) -> Attend:
    """Return the backend that runs on this device: compiled on CUDA, else interpreted."""
    return fused if device.type == "cuda" else Interpreted(fused)


def _factors(scoring: Scoring) -> tuple[float, float]:
    """Return the factors of the products before and after the soft cap; the results are in units of log2."""
    if scoring.softcap is None:
        return 1.0, scoring.scale * log2(euler)
    return scoring.scale / scoring.softcap, scoring.softcap * log2(euler)


def _unit_stride(states: Tensor) -> Tensor:
    return states if states.stride(3) == 1 else states.contiguous()
