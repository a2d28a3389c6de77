"""Launches of our kernels with the shapes of real models, for the offline compiler.

Run by `test_compiles_for_cards.py`, not interpreted. A card gets the launches that the app makes on it: attention
and fused layers are refused before Ampere, and float16 stands for bfloat16 there.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from app.engine.attention import BlockView, LayerCache, Scoring
from app.engine.attention.backend_choice import AMPERE
from app.engine.attention.triton_backend import SCRATCH, TritonAttention
from app.engine.block.block import CacheSlots, chain_block
from app.engine.layers.fused_modules import HeadNorms, NormShape
from app.engine.layers.module_replacement import LARGEST_ROW
from app.engine.layers.packed_weight import Numbers
from app.engine.layers.packed_weight_triton import pack_for_gpu
from app.engine.layers.triton_kernels import TritonKernels
from app.engine.sampling.sampling import MOST_LIKELY, SETTINGS
from app.engine.sampling.sampling_triton import choose_on_gpu
from tests.engine.layers.test_packed_layers import some_numbers
from tests.engine.offline_compiler import Card, Launch, print_compiled

LLAMA, GEMMA, GPT_OSS = NormShape(1e-5, True), NormShape(1e-6, False, adds_one=True), NormShape(1e-5, False)
KERNELS = TritonKernels()
PREFIX, CACHED = 700, 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's sizes. Of each head, `turned` values turn, or all of them."""

    heads: int
    shared: int
    size: int
    hidden: int
    inner: int
    vocabulary: int
    norm: NormShape = LLAMA
    has_head_norms: bool = False
    windows: tuple[int, ...] = (0,)
    softcap: float | None = None
    has_sinks: bool = False
    turned: int = 0


SHAPES = {
    "Llama-3.1-8B": Shape(32, 8, 128, 4096, 14_336, 128_256),
    "Qwen3-8B": Shape(32, 8, 128, 4096, 12_288, 151_936, has_head_norms=True),
    "Qwen3-0.6B": Shape(16, 8, 128, 1024, 3072, 151_936, has_head_norms=True),
    "Gemma-2-9B": Shape(16, 8, 256, 3584, 14_336, 256_000, GEMMA, windows=(0, 4096), softcap=50.0),
    "Gemma-3-4B": Shape(8, 4, 256, 2560, 10_240, 262_208, GEMMA, has_head_norms=True, windows=(0, 1024)),
    "Phi-3-mini": Shape(32, 32, 96, 3072, 8192, 32_064, windows=(2047,)),
    "Phi-4-mini": Shape(24, 8, 128, 3072, 8192, 200_064, turned=96),
    "SmolLM2-135M": Shape(9, 3, 64, 576, 1536, 49_152),
    "gpt-oss-20b": Shape(64, 8, 64, 2880, 2880, 201_088, GPT_OSS, windows=(0, 128), has_sinks=True),
}
IN_FLOAT32 = ("Llama-3.1-8B", "Gemma-3-4B")
MULTIPLIED = ("Llama-3.1-8B", "Qwen3-0.6B", "gpt-oss-20b")
"""Shapes of packed weights; those of other models differ little."""


def attention(shape: Shape, dtype: torch.dtype, window: int, busy: int, many_spans: int = 64) -> Launch:
    """A layer, for few rows, and for many in pieces of an odd number, which need no further kernels."""

    def launch(major: int, shared_memory: int) -> None:
        sinks = torch.zeros(shape.heads, dtype=dtype) if shape.has_sinks else None
        scoring = Scoring(shape.size**-0.5, window, shape.softcap, sinks)
        states = torch.zeros((1, shape.shared, CACHED, shape.size), dtype=dtype)
        for rows, scratch in ((3, SCRATCH), (67, 13 * shape.heads * shape.size * 4)):
            query = torch.zeros((1, rows, shape.heads, shape.size), dtype=dtype).transpose(1, 2)
            fused = TritonAttention(shared_memory, busy, scratch, major, many_spans)
            view = BlockView(chain_block((0,) * rows, PREFIX, ()), PREFIX, fused)
            fused(query, LayerCache(states, states), view, scoring)

    return launch


def norms(size: int, dtype: torch.dtype, shape: NormShape = LLAMA) -> Launch:
    """One row, alone and added to another."""

    def launch(_major: int, _shared_memory: int) -> None:
        row, weight = torch.zeros((1, size), dtype=dtype), torch.zeros(size, dtype=dtype)
        KERNELS.rms_norm(row, weight, shape)
        KERNELS.add_rms_norm(row, row, weight, shape)

    return launch


def gates(shape: Shape, dtype: torch.dtype) -> Launch:
    """One row, its gate and up in one tensor."""

    def launch(_major: int, _shared_memory: int) -> None:
        gate, up = torch.zeros((1, 2 * shape.inner), dtype=dtype).chunk(2, dim=-1)
        KERNELS.gated_activation(gate, up, "gelu_tanh" if shape.norm is GEMMA else "silu")

    return launch


def turns(shape: Shape, dtype: torch.dtype) -> Launch:
    """One row of heads; eagerly, and as recorded steps write it."""

    def launch(_major: int, _shared_memory: int) -> None:
        counts = (shape.heads, shape.shared, shape.shared)
        query, keys, values = (torch.zeros((1, count, 1, shape.size), dtype=dtype) for count in counts)
        table = torch.zeros((1, 1, shape.turned or shape.size), dtype=dtype)
        weight = torch.zeros(shape.size, dtype=dtype)
        head_norms = HeadNorms(weight, weight, shape.norm) if shape.has_head_norms else None
        for places in (None, torch.zeros(1, dtype=torch.long)):
            slots = CacheSlots(keys, values, 0, places)
            KERNELS.write_rotated((query, keys, values), (table, table), slots, head_norms)

    return launch


def sampling(shape: Shape, dtype: torch.dtype) -> Launch:
    """Three rows of logits."""

    def launch(_major: int, _shared_memory: int) -> None:
        keys, settings = torch.zeros(3, dtype=torch.int64), torch.zeros(SETTINGS, dtype=torch.float64)
        logits = torch.zeros((3, shape.vocabulary), dtype=dtype)
        choose_on_gpu(logits, keys, settings, torch.zeros((3, 2 * MOST_LIKELY + 2)))

    return launch


def products(shape: Shape, dtype: torch.dtype, bits: int) -> Launch:
    """Few and many rows times the projections that a layer has, of integers of int8 or int4."""

    def launch(major: int, _shared_memory: int) -> None:
        for outs, size in ((shape.hidden, shape.hidden), (shape.inner, shape.hidden)):
            scale = torch.zeros((outs, 1 if bits == 8 else size // 32), dtype=dtype)
            values = torch.zeros((outs, size), dtype=torch.uint8)
            numbers = (
                Numbers(8, values, scale) if bits == 8 else Numbers(4, values, scale, zero=8, offset=scale)
            )
            packed = pack_for_gpu((outs, size), [numbers], torch.device("cpu"))
            packed = replace(packed, most_rows=16 if major < 8 else 32)
            for rows in (1, 16, 64):
                packed.product(torch.zeros((rows, size), dtype=dtype))
            packed.rows(torch.zeros(1, dtype=torch.int64))

    return launch


def of_form(rows: int, bits: int, form: str, dtype: torch.dtype) -> Launch:
    """So many rows times a weight of a published file, and one of its rows."""

    def launch(major: int, _shared_memory: int) -> None:
        packed = pack_for_gpu((48, 1024), [some_numbers(bits, form, 1024, 48)], torch.device("cpu"))
        packed = replace(packed, most_rows=16 if major < 8 else 32)
        packed.product(torch.zeros((rows, 1024), dtype=dtype))
        packed.rows(torch.zeros(1, dtype=torch.int64))

    return launch


FORMS = (
    (1, 4, "zero"), (1, 4, "factors"), (16, 4, "offset"), (32, 4, "factors"), (128, 6, "fine factors"),
    (32, 8, "zero"),
)  # fmt: skip
"""Rows, bits and form of products."""

DEFAULT = ("Llama-3.1-8B, groups of window 0, half", "Qwen3-0.6B, turns, half", "SmolLM2-135M, norms, half")


def launches_of(card: Card, which: str) -> dict[str, Launch]:
    """The launches for a card by model, kernels and type: all, or by default a few.

    A launch that needs the kernels of an earlier one compiles none."""
    half = torch.bfloat16 if card >= AMPERE else torch.float16
    found: dict[str, Launch] = {}
    for kind, dtype, names in (("half", half, tuple(SHAPES)), ("float32", torch.float32, IN_FLOAT32)):
        for name in names:
            found |= {f"{name}, {part}, {kind}": work for part, work in _parts(name, dtype, card)}
        if card >= AMPERE:
            found[f"the largest row, norms, {kind}"] = norms(LARGEST_ROW, dtype, GEMMA)
    for rows, bits, form in FORMS:
        found[f"{rows} rows of {bits} bits with {form}, file, half"] = of_form(rows, bits, form, half)
    found["32 rows of 4 bits with offset, file, float32"] = of_form(32, 4, "offset", torch.float32)
    return found if which == "all" else {name: found[name] for name in DEFAULT}


def _parts(name: str, dtype: torch.dtype, card: Card) -> Iterator[tuple[str, Launch]]:
    """Yield the launches that the app makes on this card for a model."""
    shape = SHAPES[name]
    yield "sampling", sampling(shape, dtype)
    if name in MULTIPLIED:
        yield from ((f"int{bits}", products(shape, dtype, bits)) for bits in (8, 4))
    if card >= AMPERE:
        for window in shape.windows:
            yield f"spans of window {window}", attention(shape, dtype, window, sys.maxsize)
            yield f"groups of window {window}", attention(shape, dtype, window, 1)
            yield f"folded spans of window {window}", attention(shape, dtype, window, sys.maxsize, 1)
        yield "norms", norms(shape.hidden, dtype, shape.norm)
        yield "gates", gates(shape, dtype)
        yield "turns", turns(shape, dtype)


if __name__ == "__main__":
    print_compiled(launches_of, sys.argv[1:])
