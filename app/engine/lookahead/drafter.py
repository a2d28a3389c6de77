"""Guesses of the next token, the draft tree that grows from them, and what they learn from a step.

The tree is grown best first: the likeliest edge anywhere is added next, until the rows are spent or the next guess
is too unlikely. With probabilities on the edges,

    7 -0.8-> 8 -0.5-> 9         reach   8: 0.80   9: 0.40   5: 0.15   6: 0.08
      -0.15-> 5   \\ -0.1-> 6    a tree of three rows (the current token among them) holds 8 and 9, of four 5, too

A node's own edges are looked up only when no other edge can be better, so that most leaves cost nothing.

A device waits meanwhile, so `native_drafter.py` does the same in C if there is a compiler.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.engine.block.entries import GAP_STEP, gap_class, pack_successors, unpack_follower, unpack_successor
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
from app.engine.sampling.logits_processing import AllowedTokens, Constraint, unconstrained
from app.values.messages import MAX_ROWS, Sampling

NO_ALTERNATIVES: Mapping[int, int] = MappingProxyType({})

SUREST = 0.995
"""The most that any edge is likely: a bound for nodes whose edges were not looked up yet."""

GREEDY = Sampling()

Edge = tuple[float, int, int]
"""(chance that the model agrees, token, cell that it was learned in): a guess of the next token."""


@dataclass(frozen=True, slots=True)
class DraftSources:
    """What a reply's drafts are made from.

    `special` tokens end a guess, `reply` is the chat's count of replies, `constraint` what the grammar allows. A
    tree has at most so many `branches` in one place: with 1 it is a chain."""

    table: ContextTable
    estimator: AcceptanceEstimator
    special: Collection[int] = ()
    sampling: Sampling = GREEDY
    reply: int = 0
    constraint: Constraint = unconstrained
    branches: int = MAX_ROWS


class Drafter(Protocol):
    """Guesses from what a pool knows, for one reply."""

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        """Grow the best tree: at most `rows` nodes, `depth` guesses in a line, none less likely than `floor`."""

    def edges(self, context: Sequence[int], position: int, is_current: bool = False) -> list[Edge]:
        """Guess the token at this position, after a context; the likeliest guess comes first.

        With `is_current` the context's last token is the current one, whose alternatives may come next."""

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        """Judge the guesses at each of these tokens, with which the model went on."""

    def expect(self, contexts: NDArray[np.int64]) -> None:
        """Prepare to file successors after these contexts [R, 4], while a card computes them."""

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        """File the likeliest tokens and their logits [R, K], best first, after these contexts [R, 4].

        -1 stands before the text."""


MakeDrafter = Callable[[DraftSources], Drafter]


class PythonDrafter:
    """The drafter that runs everywhere, and under every constraint."""

    def __init__(self, sources: DraftSources) -> None:
        self._sources = sources
        self._table = sources.table
        self._estimator = sources.estimator
        self._rank = make_rank(sources.sampling)
        self._reply = sources.reply

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        def find(tree: DraftTree, node: int, near: Sequence[int], least: float) -> list[Edge]:
            return self.edges(near, len(context) + tree.depths[node], not node, least)

        return grow(self._sources, context, rows, depth, floor, find)

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        line = list(context[-LONGEST - 1 :])
        for place, token in enumerate(accepted):
            edges = self.edges(line[-LONGEST - 1 :], len(context) + place, is_current=not place)
            if allowed := self._sources.constraint(context, partial(_beginning, accepted, place)):
                edges = narrowed(edges, allowed, self._estimator)
            for chance, guess, cell in edges[:1]:
                if cell != FORCED:
                    self._estimator.observe_best(chance, guess == token)
            for _, guess, cell in edges:
                self._estimator.observe(cell, guess == token)
            line.append(token)

    def expect(self, contexts: NDArray[np.int64]) -> None:
        self._table.expect(contexts)

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        self._table.learn_successors(contexts, pack_successors(ids, logits))

    def edges(
        self, context: Sequence[int], position: int, is_current: bool = False, least: float = 0.0
    ) -> list[Edge]:
        """Guess the token at this position; guesses that are less likely than `least` are left out."""
        successors_found, successor_length, followers_found, follower_length = self._table.lookup(context)
        rates = self._estimator.rates
        codes = self._follower_codes(followers_found, follower_length) if follower_length else {}
        likely: dict[int, int] = {}
        if successors_found:
            first = successor_code(successor_length, 0)
            likely = {token: first + gap for token, gap in self._rank(successors_found, position)}
        before = alternatives(self._table, context) if is_current else NO_ALTERNATIVES
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

    def _follower_codes(self, followers_found: Sequence[int], length: int) -> dict[int, int]:
        """The codes of followers by token, newest first."""
        codes: dict[int, int] = {}
        older, reply = 0, self._reply
        first, stride = follower_code(0, length, 0), LONGEST * RANKS
        for packed in followers_found:
            token, source, is_new = unpack_follower(packed, reply)
            codes[token] = first + source * stride + older + is_new
            older = 2
        return codes


def _beginning(tokens: Sequence[int], length: int) -> Sequence[int]:
    return tokens[:length]


FindEdges = Callable[[DraftTree, int, Sequence[int], float], list[Edge]]
"""(tree, node, the last tokens up to it, least) -> its edges that are at least so likely, likeliest first."""


def grow(
    sources: DraftSources, context: Sequence[int], rows: int, depth: int, floor: float, find: FindEdges
) -> DraftTree:
    """Grow the best tree of these edges: at most `rows` nodes, `depth` guesses in a line, none below `floor`."""
    tree = DraftTree(context[-1])
    if depth < 1:
        return tree
    contexts = [tuple(context[-LONGEST - 1 :])]
    trust = sources.estimator.trust
    # (-reach or a bound on it, when it was pushed, node, its edges once looked up, which of them is next)
    heap: list[tuple[float, int, int, list[Edge], int]] = [(-1.0, 0, 0, [], 0)]
    pushed = 0
    while heap and len(tree) < rows and -heap[0][0] >= floor:
        bound, _, node, edges, place = heappop(heap)
        if edges:
            _, token, cell = edges[place]
            place += 1
            added = tree.add(node, token, origin_of(cell), -bound)
            contexts.append((*contexts[node][1 - LONGEST :], token))
            if tree.depths[added] < depth and token not in sources.special:
                pushed += 1
                heappush(heap, (bound * SUREST, pushed, added, [], 0))
        else:
            least = floor / (tree.reaches[node] * trust)  # rarer ones are never added
            edges = find(tree, node, contexts[node], least)
            if allowed := sources.constraint(context, partial(tree.path, node)):
                edges = narrowed(edges, allowed, sources.estimator)
            edges = edges[: sources.branches]
        if place < len(edges):
            pushed += 1
            chance = min(edges[place][0] * trust, SUREST)
            heappush(heap, (-tree.reaches[node] * chance, pushed, node, edges, place))
    return tree


def narrowed(edges: Sequence[Edge], allowed: AllowedTokens, estimator: AcceptanceEstimator) -> list[Edge]:
    """Keep the edges that a grammar allows, after those that it forces; trust does not lower the forced ones."""
    forced = allowed.forced
    chance = min(estimator.rates[FORCED], SUREST) / estimator.trust
    found = [(chance, token, FORCED) for token in forced]
    return found + [edge for edge in edges if edge[1] in allowed and edge[1] not in forced]


def alternatives(table: ContextTable, context: Sequence[int]) -> Mapping[int, int]:
    """Find what the model held likely in place of a context's last token, which often comes right after it.

        the model predicts, after "3 * 2":   " ="  1.2 ahead of " is", 2.0 ahead of " equals"
        the current token is " =":           " is" and " equals" are guesses of the next one

    LogitSpec (Liu et al. 2025, arXiv 2507.01449) found it. The row that chose the current token taught its
    likeliest tokens to the table already, so they are looked up there. Returns gap classes by token."""
    known = table.lookup(context[-LONGEST - 1 : -1]) if len(context) > LONGEST else None
    if known is None or known.successor_length < LONGEST:
        return NO_ALTERNATIVES
    found = {token: gap_class(gap * GAP_STEP) for token, gap in map(unpack_successor, known.successors)}
    found[unpack_successor(known.successors[0])[0]] = 0  # its gap is its lead
    found.pop(context[-1], None)
    return found
