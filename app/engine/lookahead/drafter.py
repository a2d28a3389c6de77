"""Guesses the next tokens, grows the draft tree from these guesses, and learns from each step.

An edge is a guess of the token after a node. The tree is grown best first: of all edges, the edge with the
largest reach (the product of the probabilities on its path) is added next. The tree is complete when the rows are
used up or the next guess is too unlikely. With probabilities on the edges,

    7 -0.8-> 8 -0.5-> 9
      -0.15-> 5   \\ -0.1-> 6

the reach of token 8 is 0.80, of 9 0.40, of 5 0.15, of 6 0.08. So a tree of three rows has the nodes 7 (the
current token), 8 and 9; the fourth row is 5. A node's edges are looked up only when no other edge can have a larger
reach. The device waits while a tree is drafted, so `native_drafter.py` does the same in C if there is a compiler.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.engine.block.context_entries import (
    GAP_STEP,
    gap_class,
    pack_successors,
    unpack_follower,
    unpack_successor,
)
from app.engine.lookahead.acceptance_estimator import (
    FORCED,
    NUM_FOLLOWER_CODES,
    RANKS,
    AcceptanceEstimator,
    alternative_code,
    follower_code,
    origin_of,
    successor_code,
)
from app.engine.lookahead.context_table import LONGEST, ContextTable
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.ranking import make_rank
from app.engine.sampling.penalties import AllowedTokens, Constraint, unconstrained
from app.values.messages import MAX_ROWS, Sampling

SUREST = 0.995
"""The largest probability of an edge; it also bounds the edges of nodes that were not looked up yet."""

GREEDY = Sampling()

Edge = tuple[float, int, int]
"""A guess of the next token: (chance that the model agrees, token, its cell in the acceptance estimator)."""


@dataclass(frozen=True, slots=True)
class DraftSources:
    """The knowledge from which a reply's drafts are made, and their limits.

    A branch of the tree ends at a `special` token. `reply` is the number of this reply in its chat, and
    `constraint` finds the tokens that the grammar allows. `branches` is the maximum number of children of a
    node; with 1 the tree is a chain."""

    table: ContextTable
    estimator: AcceptanceEstimator
    special: Collection[int] = ()
    sampling: Sampling = GREEDY
    reply: int = 0
    constraint: Constraint = unconstrained
    branches: int = MAX_ROWS


class Drafter(Protocol):
    """A drafter guesses tokens from what a pool knows, for one reply."""

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        """Grow the best tree: at most `rows` nodes, `depth` guesses in a line, no reach below `floor`."""

    def edges(self, context: Sequence[int], position: int, is_current: bool = False) -> list[Edge]:
        """Guess the token at this position, after a context; the likeliest guess comes first.

        With `is_current`, the context ends with the current token, and tokens that the model found likely in place
        of the current token are guessed, too."""

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        """Compare the guesses after a context with the accepted tokens, and update the estimator."""

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        """Store the likeliest tokens and their logits [R, K], best first, for each of the contexts [R, 4].

        Contexts at the beginning of a text are filled up with -1."""


MakeDrafter = Callable[[DraftSources], Drafter]


class PythonDrafter:
    """The drafter that runs on every machine and with every constraint."""

    def __init__(self, sources: DraftSources) -> None:
        self._sources = sources
        self._table = sources.table
        self._estimator = sources.estimator
        self._rank = make_rank(sources.sampling)

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        def find(tree: DraftTree, node: int, near: Sequence[int], least: float) -> list[Edge]:
            return self.edges(near, len(context) + tree.depths[node], not node, least)

        return grow(self._sources, context, rows, depth, floor, find)

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        line = list(context[-LONGEST - 1 :])
        for index, token in enumerate(accepted):
            edges = self.edges(line[-LONGEST - 1 :], len(context) + index, is_current=not index)
            if allowed := self._sources.constraint(context, partial(tuple, accepted[:index])):
                edges = narrowed(edges, allowed, self._estimator)
            for chance, guess, cell in edges[:1]:
                if cell != FORCED:
                    self._estimator.observe_best(chance, guess == token)
            for _, guess, cell in edges:
                self._estimator.observe(cell, guess == token)
            line.append(token)

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        self._table.learn_successors(contexts, pack_successors(ids, logits))

    def edges(
        self, context: Sequence[int], position: int, is_current: bool = False, least: float = 0.0
    ) -> list[Edge]:
        """Guess the token at this position; leave out guesses that are less likely than `least`."""
        successors_found, successor_length, followers_found, follower_length = self._table.lookup(context)
        rates = self._estimator.rates
        codes: dict[int, int] = {}  # of the followers, newest first
        if follower_length:
            older, first, stride = 0, follower_code(0, follower_length, 0), LONGEST * RANKS
            for packed in followers_found:
                token, source, is_new = unpack_follower(packed, self._sources.reply)
                codes[token] = first + source * stride + older + is_new
                older = 2
        likely: dict[int, int] = {}
        if successors_found:
            first = successor_code(successor_length, 0)
            likely = {token: first + gap for token, gap in self._rank(successors_found, position)}
        before = alternatives(self._table, context) if is_current else {}
        for token, gap in before.items():
            likely.setdefault(token, alternative_code(successor_length, gap))
        edges = []
        for token, code in likely.items():
            cell = code * NUM_FOLLOWER_CODES + codes.pop(token, follower_length)
            if (rate := rates[cell]) >= least:
                edges.append((rate, token, cell))
        base = successor_length * NUM_FOLLOWER_CODES
        for token, code in codes.items():
            if (rate := rates[base + code]) >= least:
                edges.append((rate, token, base + code))
        edges.sort(reverse=True)
        return edges


FindEdges = Callable[[DraftTree, int, Sequence[int], float], list[Edge]]
"""(tree, node, last tokens up to it, least) -> the node's edges of at least this chance, likeliest first."""


def grow(
    sources: DraftSources, context: Sequence[int], rows: int, depth: int, floor: float, find: FindEdges
) -> DraftTree:
    """Grow the best tree, within the limits of `Drafter.draft`, from the edges that `find` returns."""
    tree = DraftTree([context[-1]])
    if depth < 1:
        return tree
    contexts = [tuple(context[-LONGEST - 1 :])]
    trust = sources.estimator.trust
    # (-reach of the next edge or a bound of it, order of pushing, node, its edges or [] if they were not looked up
    # yet, index of the next edge)
    heap: list[tuple[float, int, int, list[Edge], int]] = [(-1.0, 0, 0, [], 0)]
    pushed = 0
    while heap and len(tree) < rows and -heap[0][0] >= floor:
        bound, _, node, edges, index = heappop(heap)
        if edges:
            _, token, cell = edges[index]
            index += 1
            added = tree.add(node, token, origin_of(cell), -bound)
            contexts.append((*contexts[node][1 - LONGEST :], token))
            if tree.depths[added] < depth and token not in sources.special:
                pushed += 1
                heappush(heap, (bound * SUREST, pushed, added, [], 0))
        else:
            least = floor / (tree.reaches[node] * trust)  # edges less likely than this are never added
            edges = find(tree, node, contexts[node], least)
            if allowed := sources.constraint(context, partial(tree.path, node)):
                edges = narrowed(edges, allowed, sources.estimator)
            edges = edges[: sources.branches]
        if index < len(edges):
            pushed += 1
            chance = min(edges[index][0] * trust, SUREST)
            heappush(heap, (-tree.reaches[node] * chance, pushed, node, edges, index))
    return tree


def narrowed(edges: Sequence[Edge], allowed: AllowedTokens, estimator: AcceptanceEstimator) -> list[Edge]:
    """Return the edge that the grammar forces, if any, then the given edges that it allows.

    A forced edge's chance is divided by `trust`, because `grow` multiplies chances by `trust`."""
    chance = min(estimator.rates[FORCED], SUREST) / estimator.trust
    found = [(chance, token, FORCED) for token in allowed.forced]
    return found + [edge for edge in edges if edge[1] in allowed and edge[1] not in allowed.forced]


def alternatives(table: ContextTable, context: Sequence[int]) -> Mapping[int, int]:
    """Look up tokens that the model found likely in place of a context's last token, because they often come next.

        the model predicts, after "3 * 2":   " ="  1.2 ahead of " is", 2.0 ahead of " equals"
        the current token is " =":           " is" and " equals" are guesses of the next token

    The idea is LogitSpec's (Liu et al. 2025, arXiv 2507.01449). Returns, for each such token, the class of its
    distance in logits (`gap_class`) to the likeliest token, whose own class is 0. Returns {} if the table does not
    know the four tokens before the last token."""
    known = table.lookup(context[-LONGEST - 1 : -1]) if len(context) > LONGEST else None
    if known is None or known.successor_length < LONGEST:
        return {}
    found = {token: gap_class(gap * GAP_STEP) for token, gap in map(unpack_successor, known.successors)}
    # the likeliest token's packed gap is its lead over the second token, not a distance; its distance is 0
    found[unpack_successor(known.successors[0])[0]] = 0
    found.pop(context[-1], None)
    return found
