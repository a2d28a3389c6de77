"""The model's successors of each token alone, measured once per model, so that the first step of a reply can draft.

A pool that starts empty earns nothing in short replies. But the model can be run before there is any text: on every
token of the vocabulary, each as if a text began with it, in blocks whose rows do not see each other. The results
hold nothing of a user's texts and are kept on disk. Later steps overwrite them, context by context.
"""

from collections.abc import Callable
from time import perf_counter

import numpy as np

from app.engine.block import Block
from app.engine.lookahead.entries import SUCCESSORS, Packed, pack_successors
from app.engine.runner import ModelRunner
from app.engine.sampling import likeliest

ROWS = 128
"""Rows of a block, where memory has room for so many."""
SECONDS = 3.0
"""Time that a model may take at load; tokens behind that stay unasked. Low numbers are the frequent ones."""


def ask_first_successors(
    runner: ModelRunner,
    known: Packed,
    start: int,
    progress: Callable[[int, int], None],
    rows: int = ROWS,
    clock: Callable[[], float] = perf_counter,
) -> Packed:
    """Successors [vocabulary, 8] behind `start` and each token: those that are known, and those measured now.

    Zeros stand where there was no time yet. Leaves no prefix."""
    successors, vocabulary = known.copy(), len(known)
    began = clock()
    for _ in runner.prefill([start]):
        pass
    for first in range(num_asked(known), vocabulary, rows):
        tokens = tuple(range(first, min(first + rows, vocabulary)))
        ids, logits = likeliest(runner.forward(_apart(tokens)), SUCCESSORS)
        successors[first : first + len(tokens)] = pack_successors(ids, logits)
        progress(first + len(tokens), vocabulary)
        if clock() - began > SECONDS:
            break
    runner.forget()
    return successors


def no_successors(vocabulary: int) -> Packed:
    """Nothing was measured yet."""
    return np.zeros((vocabulary, SUCCESSORS), dtype=np.int32)


def num_asked(successors: Packed) -> int:
    """How many tokens were measured; they are the first ones."""
    return int(np.count_nonzero(successors[:, 0]))


def _apart(tokens: tuple[int, ...]) -> Block:
    """Rows at position 1 that see the prefix and themselves."""
    rows = len(tokens)
    return Block(tokens, (1,) * rows, np.eye(rows, dtype=np.bool_), tuple(range(rows)))
