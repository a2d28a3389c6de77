"""The chat's real pool, held to one source: what is taught from elsewhere does not reach it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine.lookahead.acceptance_estimator import AcceptanceEstimator
from app.engine.lookahead.context_table import LONGEST, ContextTable, last_tokens
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.native_drafter import best_drafter
from app.engine.lookahead.ngram_pool import Pool
from app.values.messages import Origin

SOURCES: tuple[Origin, ...] = ("window", "prompt", "output", "document", "prediction", "history", "successor")
"""Everyone who drafts."""
BITS = 12


@dataclass(frozen=True, slots=True)
class Only:
    """A pool that goes on learning from these sources alone."""

    pool: Pool
    sources: frozenset[Origin]

    def __len__(self) -> int:
        return len(self.pool)

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        if origin in self.sources:
            self.pool.learn(text, new, origin)

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        if "successor" in self.sources:
            self.pool.learn_successors(contexts, ids, logits)

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        self.pool.observe(context, accepted)

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        return self.pool.draft(context, rows, depth, floor)

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        return self.pool.continuation(context, length)


def empty_pool(vocabulary: int, bits: int = BITS) -> Pool:
    """A pool that drafts as replies do on this machine: in C where there is a compiler."""
    table = ContextTable(vocabulary, bits)
    return Pool(table, AcceptanceEstimator(), make_drafter=best_drafter())


def only(source: Origin, vocabulary: int) -> Only:
    """A pool that knows nothing yet and learns from one source."""
    return Only(empty_pool(vocabulary), frozenset({source}))


def knowing(source: Origin, text: Sequence[int], vocabulary: int) -> Only:
    """A pool that knows a whole text, and knows it from one source."""
    known = only(source, vocabulary)
    if source == "successor":
        known.learn_successors(*said_behind(text))
    elif source == "history":
        known.pool.begin(text, AcceptanceEstimator())
        known.pool.begin((), AcceptanceEstimator())
    else:
        known.learn(text, len(text), source)
    return known


def said_behind(text: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """What a model says that would write this text: contexts [R, 4], its likeliest tokens and logits [R, 2]."""
    contexts = np.array([last_tokens(text[:end][-LONGEST:]) for end in range(1, len(text))])
    ids = np.array([[token, (token + 1) % 3] for token in text[1:]])
    logits = np.tile(np.array([5.0, 1.0], dtype=np.float32), (len(ids), 1))
    return contexts, ids, logits
