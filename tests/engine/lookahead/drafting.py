"""Draft trees for tests, from whole lines of guesses."""

from collections.abc import Container, Iterable, Sequence

import numpy as np

from app.engine.block.block import Visible
from app.engine.lookahead.acceptance_estimator import AcceptanceEstimator
from app.engine.lookahead.context_table import ContextTable, last_tokens
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.ngram_pool import Pool
from app.values.messages import Origin

VOCABULARY = 64


def pool_of(
    *texts: Sequence[int],
    origin: Origin = "document",
    special: Container[int] = (),
    estimator: AcceptanceEstimator | None = None,
) -> Pool:
    pool = Pool(ContextTable(VOCABULARY, 12), estimator or AcceptanceEstimator(), special)
    for text in texts:
        pool.learn(text, len(text), origin)
    return pool


def says(pool: Pool, context: Sequence[int], *tokens: int, lead: float = 3.0) -> None:
    """The model held these tokens likely behind a context, the first by this lead."""
    logits = np.array([[0.0, *(-lead - place for place in range(len(tokens) - 1))]], dtype=np.float32)
    pool.learn_successors(np.array([last_tokens(context)]), np.array([tokens]), logits)


def drawn(visible: Visible) -> list[str]:
    """One line of text for each row of a visibility matrix."""
    return ["".join("1" if seen else "." for seen in row) for row in visible]


def tree_of(current: int, lines: Iterable[Sequence[int]], origin: Origin) -> DraftTree:
    """Whole lines of guesses merged below the current token."""
    tree = DraftTree([current])
    for line in lines:
        node = 0
        for token in line:
            node = tree.add(node, token, origin)
    return tree
