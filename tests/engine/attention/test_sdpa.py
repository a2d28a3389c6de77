"""In float64, torch's kernel forgets where a key lies."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from app.engine.attention import BlockView, LayerCache, Scoring, sdpa
from app.engine.block.block import Block, chain_block


@pytest.mark.parametrize("heads", [2, 8])
def test_a_steady_pass_rounds_the_same_wherever_a_key_lies(heads: int) -> None:
    """One row's 1,100 keys, all in order, or the last 20 of them at every third row of a block."""
    source = torch.Generator().manual_seed(heads)
    query, key, value = (torch.randn((1, heads, 1100, 64), generator=source).bfloat16() for _ in range(3))
    scoring = Scoring(0.125)
    plain = BlockView(chain_block((0,), 1099, ()), 1099, sdpa.attend_batch_invariant)
    expected = sdpa.attend_batch_invariant(query[:, :, -1:], LayerCache(key, value), plain, scoring)
    rows = np.arange(0, 60, 3)
    parents = (-1, *((row - 1) // 3 * 3 for row in range(1, 60)))
    spread = [torch.cat((part[:, :, :1080], part[:, :, -60:]), dim=2) for part in (key, value)]
    for part, whole in zip(spread, (key, value), strict=True):
        part[:, :, 1080 + rows] = whole[:, :, 1080:]
    queries = query[:, :, -60:].clone()
    queries[:, :, 57] = query[:, :, -1]
    block = Block((0,) * 60, tuple(range(1080, 1140)), parents, ())
    view = BlockView(block, 1080, sdpa.attend_batch_invariant)
    said = sdpa.attend_batch_invariant(queries, LayerCache(*spread), view, scoring)
    assert torch.equal(said[:, 57], expected[:, 0])


class Launches(TorchDispatchMode):
    """Counts operations."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_a_device_has_no_more_launches_for_more_heads() -> None:
    """Each would be one more for every layer and step; no card is needed to count them."""
    counts = []
    for heads in (1, 8):
        device = torch.device("meta")
        states = torch.empty((1, heads, 2100, 128), dtype=torch.bfloat16, device=device)
        view = BlockView(chain_block((0,), 2099, ()), 2099, sdpa.attend_batch_invariant, device)
        with Launches() as launches:
            sdpa.attend_batch_invariant(states[:, :, -1:], LayerCache(states, states), view, Scoring(0.1))
        counts.append(launches.count)
    assert counts[0] == counts[1]
