"""The attention kernels for the offline compiler. Run by `test_compiles_for_cards.py`, not interpreted."""

import sys

import torch

from app.engine.attention import BlockView, LayerCache, Scoring
from app.engine.attention.triton_backend import SCRATCH, TritonAttention
from app.engine.block.block import chain_block
from tests.engine.offline_compiler import Launch, main

PREFIX, ROWS = 700, 3

AGAIN = "128, groups, piece by piece"
"""Rows of a long prompt, in pieces of an odd number: what was compiled for few rows serves them."""


def attends(
    size: int,
    dtype: torch.dtype,
    rows: int = ROWS,
    busy: int = 64,
    softcap: float = 0.0,
    scratch: int = SCRATCH,
) -> Launch:
    """One layer of 4 query heads for each of 2 key heads; with `busy` 1 programs do whole groups."""

    def launch(major: int, shared_memory: int) -> None:
        query = torch.zeros((1, rows, 8, size), dtype=dtype).transpose(1, 2)
        states = torch.zeros((1, 2, 1024, size), dtype=dtype)
        fused = TritonAttention(shared_memory, busy, scratch, major)
        view = BlockView(chain_block((0,) * rows, PREFIX, ()), PREFIX, fused)
        fused(query, LayerCache(states, states), view, Scoring(size**-0.5, softcap=softcap or None))

    return launch


USUAL: dict[str, Launch] = {
    "128, spans": attends(128, torch.bfloat16),
    "128, groups": attends(128, torch.bfloat16, 64, busy=1),
    AGAIN: attends(128, torch.bfloat16, 67, busy=1, scratch=13 * 8 * 128 * 4),
}
WIDE: dict[str, Launch] = {
    "256, groups, soft cap": attends(256, torch.bfloat16, busy=1, softcap=50.0),
    "256 in float32": attends(256, torch.float32),
}

DEFAULT = ("128, groups", AGAIN)

if __name__ == "__main__":
    # Compiling takes time: elsewhere than on the card that is judged, the usual heads must do.
    main(USUAL | WIDE if sys.argv[1] == "9" else USUAL, DEFAULT, sys.argv[1:])
