"""The model's successors of each token alone, measured once per model, so that the first step of a reply can draft.

A pool that starts empty earns nothing in short replies. But the model can be run before there is any text: on every
token of the vocabulary, each as if a text began with it, in passes whose rows do not see each other. The results
hold nothing of a user's texts and are kept on disk. Later steps overwrite them, context by context. Their mean
stands in for tokens that were not measured yet. What a load has no time for is asked later, while the model has
nothing to do (`idle_asking.py`).
"""

from collections.abc import Callable
from time import perf_counter

import numpy as np

from app.engine.block.entries import GAP_STEP, MOST_GAP, SUCCESSORS, Packed, pack_successors
from app.engine.runner.model_runner import ModelRunner
from app.engine.sampling.sampling import likeliest

ROWS = 128
"""Rows of a block, where memory has room for so many."""
SECONDS = 1.5
"""Time that a model may take at load; tokens behind that stay unasked. Low numbers are the frequent ones."""


def ask_first_successors(
    runner: ModelRunner,
    known: Packed,
    start: int,
    progress: Callable[[int, int], None],
    rows: int = ROWS,
    clock: Callable[[], float] = perf_counter,
    seconds: float = SECONDS,
) -> Packed:
    """Successors [vocabulary, 8] behind `start` and each token: those that are known, and those measured now.

    After so many seconds no other block is begun. Zeros stand where there was no time yet. Leaves no prefix."""
    successors, vocabulary = known.copy(), len(known)
    began = clock()
    for _ in runner.prefill([start]):
        pass
    for first in range(num_asked(known), vocabulary, rows):
        tokens = range(first, min(first + rows, vocabulary))
        ids, logits = likeliest(runner.forward_apart(tokens), SUCCESSORS)
        successors[first : first + len(tokens)] = pack_successors(ids, logits)
        progress(first + len(tokens), vocabulary)
        if clock() - began >= seconds:
            break
    runner.forget()
    return successors


def likely_anywhere(successors: Packed) -> Packed:
    """What is likely behind no token in particular [8]: the mean over the tokens that were measured."""
    asked = successors[successors[:, 0] != 0]
    tokens, gaps = (asked >> 10) - 1, (asked & MOST_GAP) * GAP_STEP
    gaps[:, 0] = 0  # its gap is its lead
    chances = np.where(tokens >= 0, np.exp(-gaps), 0)
    chances /= chances.sum(axis=1, keepdims=True)
    mass = np.bincount(np.maximum(tokens, 0).ravel(), chances.ravel())
    best = np.argsort(-mass, kind="stable")[: min(SUCCESSORS, np.count_nonzero(mass))]
    if not len(best):
        return np.zeros(SUCCESSORS, dtype=np.int32)
    found: Packed = pack_successors(best[None], np.log(mass[best], dtype=np.float32)[None])[0]
    return found


def no_successors(vocabulary: int) -> Packed:
    """Nothing was measured yet."""
    return np.zeros((vocabulary, SUCCESSORS), dtype=np.int32)


def num_asked(successors: Packed) -> int:
    """How many tokens were measured; they are the first ones."""
    return int(np.count_nonzero(successors[:, 0]))
