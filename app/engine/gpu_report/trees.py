"""Blocks as lookahead makes them, drawn at random, and attention over them from the definition."""

from random import Random

import numpy as np
import torch
from torch import Tensor

from app.engine.attention import LayerCache, Scoring
from app.engine.block import Block
from app.engine.lookahead.draft_tree import DraftTree

DEEPEST = 20


def random_tree(rows: int, prefix: int, seed: int = 0) -> Block:
    """A draft tree of so many rows behind a prefix, no path deeper than lookahead's."""
    source, tree = Random(seed), DraftTree(0)
    for token in range(1, rows):
        parents = [node for node in range(len(tree)) if tree.depths[node] < DEEPEST]
        tree.add(source.choice(parents[-8:]), token, "prompt")
    positions = tuple(prefix + depth for depth in tree.depths)
    return Block(tuple(tree.tokens), positions, tree.visible(), tuple(range(rows)))


def sees(block: Block, prefix: int, window: int, device: torch.device) -> Tensor:
    """[T, L + T], True where a row sees a key: by the block's own words, not by what backends make of them."""
    own = np.asarray(block.positions)
    positions = np.concatenate((np.arange(prefix), own))
    sight = np.concatenate((np.ones((len(block), prefix), dtype=np.bool_), block.visible), axis=1)
    if window:
        sight &= own[:, None] - positions[None, :] < window
    return torch.from_numpy(sight).to(device)


def defined(query: Tensor, cache: LayerCache, sight: Tensor, scoring: Scoring) -> Tensor:
    """Attention [1, T, H, DV] in float64, written out, one query head at a time."""
    heads, shared = query.shape[1], cache.keys.shape[1]
    outs = []
    for head in range(heads):
        group = head * shared // heads
        key, value = cache.keys[0, group].double(), cache.values[0, group].double()
        scores = query[0, head].double() @ key.T * scoring.scale
        if scoring.softcap is not None:
            scores = scoring.softcap * torch.tanh(scores / scoring.softcap)
        scores = scores.masked_fill(~sight, -torch.inf)
        if scoring.sinks is not None:
            sink = scoring.sinks[head].double().expand(len(scores), 1)
            weights = torch.cat((scores, sink), dim=1).softmax(dim=1)[:, :-1]
        else:
            weights = scores.softmax(dim=1)
        outs.append(weights @ value)
    return torch.stack(outs, dim=1)[None]
