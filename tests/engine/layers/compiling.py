"""The launches of fused layers for the offline compiler. Run by `test_compiles_for_cards.py`, not interpreted."""

import sys

import torch

from app.engine.block.block import CacheSlots
from app.engine.layers.fused_modules import Activation, HeadNorms, NormShape
from app.engine.layers.replacements import LARGEST_ROW
from app.engine.layers.triton_kernels import TritonKernels
from tests.engine.offline_compiler import Launch, main

KERNELS = TritonKernels()
LLAMA, GEMMA = NormShape(1e-5, True), NormShape(1e-6, False, adds_one=True)


def norms(size: int, dtype: torch.dtype, shape: NormShape = LLAMA) -> Launch:
    """One row, alone and added to another."""

    def launch(_major: int, _shared_memory: int) -> None:
        row, weight = torch.zeros((1, size), dtype=dtype), torch.zeros(size, dtype=dtype)
        KERNELS.rms_norm(row, weight, shape)
        KERNELS.add_rms_norm(row, row, weight, shape)

    return launch


def gates(size: int, activation: Activation, dtype: torch.dtype) -> Launch:
    """One row, its gate and up in one tensor."""

    def launch(_major: int, _shared_memory: int) -> None:
        KERNELS.gated_activation(*torch.zeros((1, 2 * size), dtype=dtype).chunk(2, dim=-1), activation)

    return launch


def turns(
    count: int, shared: int, size: int, width: int, dtype: torch.dtype, shape: NormShape | None = None
) -> Launch:
    """One row of so many heads, of which `width` values turn; eagerly, and as recorded steps write it."""

    def launch(_major: int, _shared_memory: int) -> None:
        states = tuple(torch.zeros((1, heads, 1, size), dtype=dtype) for heads in (count, shared, shared))
        query, keys, values = states
        table, weight = torch.zeros((1, 1, width), dtype=dtype), torch.zeros(size, dtype=dtype)
        norms = HeadNorms(weight, weight, shape) if shape else None
        for places in (None, torch.zeros(1, dtype=torch.long)):
            slots = CacheSlots(keys, values, 0, places)
            KERNELS.write_rotated((query, keys, values), (table, table), slots, norms)

    return launch


HALF, WHOLE = torch.bfloat16, torch.float32

LAUNCHES: dict[str, Launch] = {
    "norm of a head": norms(128, HALF),
    "norm of 896": norms(896, HALF, GEMMA),
    "norm of 4096": norms(4096, HALF),
    "norm of the largest row": norms(LARGEST_ROW, HALF, GEMMA),
    "norm of the largest row in float32": norms(LARGEST_ROW, WHOLE, GEMMA),
    "silu": gates(11_008, "silu", HALF),
    "gelu": gates(9_216, "gelu_tanh", HALF),
    "32 heads": turns(32, 8, 128, 128, HALF),
    "8 heads of 256 in float32": turns(8, 4, 256, 256, WHOLE),
    "16 heads that are normalised": turns(16, 8, 128, 128, HALF, LLAMA),
    "4 heads of 256 that are normalised": turns(4, 1, 256, 256, HALF, GEMMA),
    "heads that turn in part": turns(32, 32, 96, 48, HALF),
}
DEFAULT = ("norm of 896", "silu", "32 heads", "16 heads that are normalised")

if __name__ == "__main__":
    main(LAUNCHES, DEFAULT, sys.argv[1:])
