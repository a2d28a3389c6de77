"""Layers' work drawn at random, and attention over it from the definition, in float64."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from app.engine.attention import Attend, BlockView, LayerCache, Scoring
from app.engine.attention.native import NativeAttention
from app.engine.block.block import Block
from app.engine.lookahead.draft_tree import DraftTree

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""Where backends are held to the definition: on the CPU triton's kernels run in its interpreter."""

UNWRITTEN = 3
"""Slots behind the block, full of NaN: what was never written must not be read."""


@dataclass(frozen=True, slots=True)
class Case:
    """One layer's work: a tree of `parents` behind a prefix, `heads` query heads over `shared` key heads."""

    prefix: int = 5
    parents: tuple[int, ...] = (0, 1, 0, 3)
    heads: int = 4
    shared: int = 2
    size: int = 16
    window: int = 0
    softcap: float | None = None
    has_sinks: bool = False
    seed: int = 0

    @property
    def block(self) -> Block:
        """The tree's rows."""
        tree = tree_of(self.parents)
        positions = tuple(self.prefix + depth for depth in tree.depths)
        return Block(tuple(tree.tokens), positions, tuple(tree.parents), ())


@dataclass(frozen=True, slots=True)
class Inputs:
    """Query [1, H, T, D], a cache of L + T slots, and how it is scored."""

    query: Tensor
    cache: LayerCache
    scoring: Scoring


def tree_of(parents: tuple[int, ...]) -> DraftTree:
    tree = DraftTree([0])
    for token, parent in enumerate(parents, start=1):
        tree.add(parent, token, "prompt")
    return tree


def inputs(case: Case, dtype: torch.dtype = torch.float32) -> Inputs:
    """The case's numbers; the query lies in memory as a model lays it, row by row."""
    random = torch.Generator().manual_seed(case.seed)
    rows = 1 + len(case.parents)
    query = torch.randn(1, rows, case.heads, case.size, generator=random)
    keys, values = torch.randn(2, 1, case.shared, case.prefix + rows, case.size, generator=random)
    sinks = torch.randn(case.heads, generator=random) if case.has_sinks else None
    scoring = Scoring(1.6 * case.size**-0.5, case.window, case.softcap, sinks)
    return Inputs(query.transpose(1, 2).to(dtype), LayerCache(keys.to(dtype), values.to(dtype)), scoring)


def attended(attend: Attend, case: Case, dtype: torch.dtype = torch.float32) -> Tensor:
    """What a backend gives [T, H, D] from a cache that has more slots than are written."""
    given = inputs(case, dtype)
    device = torch.device("cpu") if isinstance(attend, NativeAttention) else DEVICE
    keys, values = (
        torch.nn.functional.pad(states, (0, 0, 0, UNWRITTEN), value=torch.nan).to(device)
        for states in (given.cache.keys, given.cache.values)
    )
    view = BlockView(case.block, case.prefix, attend, device)
    sinks = given.scoring.sinks
    scoring = Scoring(
        given.scoring.scale, case.window, case.softcap, None if sinks is None else sinks.to(device)
    )
    out = attend(given.query.to(device), LayerCache(keys, values), view, scoring)
    assert (out.dtype, out.is_contiguous()) == (dtype, True)
    assert out.shape == (1, len(case.block), case.heads, case.size)
    return out[0].cpu()


def defined(case: Case, dtype: torch.dtype = torch.float32) -> Tensor:
    """The same [T, H, D], from the definition: one query at a time, in float64."""
    given, block = inputs(case, dtype), case.block
    query, key, value = given.query[0].double(), given.cache.keys[0].double(), given.cache.values[0].double()
    out = torch.zeros(len(block), case.heads, case.size, dtype=torch.float64)
    for row in range(len(block)):
        seen = seen_keys(case, block, row)
        for head in range(case.heads):
            group = head * case.shared // case.heads
            scores = key[group, seen] @ query[head, row] * given.scoring.scale
            if case.softcap is not None:
                scores = case.softcap * torch.tanh(scores / case.softcap)
            sink = 0.0 if given.scoring.sinks is None else given.scoring.sinks[head].double().exp()
            out[row, head] = scores.exp() / (scores.exp().sum() + sink) @ value[group, seen]
    return out


def seen_keys(case: Case, block: Block, row: int) -> list[int]:
    """The slots that a row sees, by the block's own words."""
    positions = np.concatenate((np.arange(case.prefix), block.positions))
    in_sight = np.concatenate((np.ones(case.prefix, dtype=np.bool_), block.visible()[row]))
    if case.window:
        in_sight &= block.positions[row] - positions < case.window
    return [int(slot) for slot in np.flatnonzero(in_sight)]
