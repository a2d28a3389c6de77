"""In float64, torch's kernel forgets where a key lies."""

import numpy as np
import pytest
import torch

from app.engine.attention import BlockView, LayerCache, Scoring, sdpa
from app.engine.block import Block, chain_block


@pytest.mark.parametrize("heads", [2, 8])
def test_a_steady_pass_rounds_the_same_wherever_a_key_lies(heads: int) -> None:
    """One row's 1,100 keys, all in order, or the last 20 of them at every third row of a block."""
    source = torch.Generator().manual_seed(heads)
    query, key, value = (torch.randn((1, heads, 1100, 64), generator=source).bfloat16() for _ in range(3))
    scoring = Scoring(0.125)
    plain = BlockView(chain_block((0,), 1099, ()), 1099, sdpa.attend_batch_invariant)
    expected = sdpa.attend_batch_invariant(query[:, :, -1:], LayerCache(key, value), plain, scoring)
    rows = np.arange(0, 60, 3)
    visible = np.eye(60, dtype=np.bool_)
    visible[:, rows] |= np.arange(60)[:, None] >= rows
    spread = [torch.cat((part[:, :, :1080], part[:, :, -60:]), dim=2) for part in (key, value)]
    for part, whole in zip(spread, (key, value), strict=True):
        part[:, :, 1080 + rows] = whole[:, :, 1080:]
    queries = query[:, :, -60:].clone()
    queries[:, :, 57] = query[:, :, -1]
    block = Block((0,) * 60, tuple(range(1080, 1140)), visible, ())
    view = BlockView(block, 1080, sdpa.attend_batch_invariant)
    said = sdpa.attend_batch_invariant(queries, LayerCache(*spread), view, scoring)
    assert torch.equal(said[:, 57], expected[:, 0])
