"""The pool: what is known about which tokens follow which, and the draft tree grown from it.

It has two kinds of knowledge about each context. The model's own successors cost nothing, since every row of every
step computes them; those of each single token are measured once, at load. Followers come from texts: the prompt,
the reply so far, the window's lines, documents and earlier turns. The tree is grown best first: the likeliest edge
anywhere is added next, until the rows are spent or the next guess is too unlikely. With probabilities on the
edges,

    7 -0.8-> 8 -0.5-> 9         reach   8: 0.80   9: 0.40   5: 0.15   6: 0.08
      -0.15-> 5   \\ -0.1-> 6    a tree of three rows (the current token among them) holds 8 and 9, of four 5, too

A node's own edges are looked up only when no other edge can be better, so that most leaves cost nothing.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.engine.block import common_length
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
from app.engine.lookahead.alternatives import NO_ALTERNATIVES, alternatives
from app.engine.lookahead.context_table import LONGEST, ContextTable
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.entries import Packed, pack_follower, unpack_follower
from app.engine.lookahead.ranking import Rank, likeliest_first
from app.messages import Origin

SUREST = 0.995
"""No edge is likelier than this: a bound for nodes whose edges were not looked up yet."""


Edge = tuple[float, int, int]
"""(chance that the model agrees, token, cell that it was learned in): a guess of the next token."""


class Allowed(Protocol):
    """The tokens that a grammar allows at some place; `forced` is the one it leaves, as far as it can be told."""

    @property
    def forced(self) -> list[int]:
        """That token, or nothing."""

    def __contains__(self, token: int) -> bool: ...


Constraint = Callable[[Sequence[int], Callable[[], Sequence[int]]], Allowed | None]
"""(text, what is added to it) -> what the reply's grammar allows behind both; None without a grammar."""


def unconstrained(_text: Sequence[int], _added: Callable[[], Sequence[int]]) -> None:
    """Every token may come next."""


def _beginning(tokens: Sequence[int], length: int) -> Sequence[int]:
    return tokens[:length]


class Pool(Protocol):
    """Where drafts come from."""

    def __len__(self) -> int:
        """How many n-grams the pool was taught."""

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        """File the last `new` tokens of a line of text behind what stood before them."""

    def expect(self, contexts: NDArray[np.int64]) -> None:
        """Successors will be filed behind these contexts [R, 4]: prepare that, while a card computes them."""

    def learn_successors(self, contexts: NDArray[np.int64], successors: Packed) -> None:
        """File what the model held likely [R, 8] behind these contexts [R, 4]; -1 is before the text."""

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        """The best tree of at most `rows` nodes and `depth` guesses in a line, none less likely than `floor`."""

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        """The model went on with these tokens: how good were the guesses at each of them?"""

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        """One likely line of `length` tokens behind a context, to start the window from."""


class ContextPool:
    """The pool of one chat. `special` tokens may end a guess and are never followed by another."""

    def __init__(
        self, table: ContextTable, estimator: AcceptanceEstimator, special: Container[int] = ()
    ) -> None:
        self._table = table
        self._estimator = estimator
        self._rank: Rank = likeliest_first
        self._special = special
        self._constraint: Constraint = unconstrained
        self._text: list[int] = []
        self._prompt_length = 0
        self._learned = 0
        self._reply = 0
        self._documents: set[tuple[int, ...]] = set()

    def __len__(self) -> int:
        return self._learned

    def goes_on(self, text: Sequence[int]) -> bool:
        """Whether a text begins with all that was prompt when the newest reply began."""
        return common_length(self._text, text) >= self._prompt_length

    def begin(
        self,
        text: Sequence[int],
        estimator: AcceptanceEstimator,
        rank: Rank = likeliest_first,
        constraint: Constraint = unconstrained,
    ) -> None:
        """A reply to this text begins. What it has in common with the text so far is history from now on."""
        self._estimator = estimator
        self._rank = rank
        self._constraint = constraint
        self._reply += 1
        known = common_length(self._text, text)
        self._text = list(text[:known])
        self.learn(text, len(text) - known, "prompt")
        self._prompt_length = len(text) - 1  # its last token is the reply's first

    def learn_document(self, document: Sequence[int], origin: Origin = "document") -> None:
        """File a text to quote from, once: what is read again for another reply is no news."""
        if tuple(document) not in self._documents:
            self._documents.add(tuple(document))
            self.learn(document, len(document), origin)

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        """File the last `new` tokens of a line of text behind what stood before them."""
        for end in range(max(len(text) - new, 1), len(text)):
            entry = pack_follower(text[end], origin, self._reply)
            self._learned += self._table.learn_follower(text[max(end - LONGEST, 0) : end], entry)
        if origin in ("prompt", "output"):
            self._text += text[len(text) - new :]

    def expect(self, contexts: NDArray[np.int64]) -> None:
        """Find where successors will be filed behind these contexts [R, 4]."""
        self._table.expect(contexts)

    def learn_successors(self, contexts: NDArray[np.int64], successors: Packed) -> None:
        """File what the model held likely [R, 8] behind these contexts [R, 4]; -1 is before the text."""
        self._table.learn_successors(contexts, successors)

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        """The best tree of at most `rows` nodes and `depth` guesses in a line, none less likely than `floor`."""
        tree = DraftTree(context[-1])
        if depth < 1:
            return tree
        contexts = [tuple(context[-LONGEST:])]
        trust = self._estimator.trust
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
                if tree.depths[added] < depth and token not in self._special:
                    pushed += 1
                    heappush(heap, (bound * SUREST, pushed, added, [], 0))
            else:
                least = floor / (tree.reaches[node] * trust)  # rarer ones are never added
                before = NO_ALTERNATIVES if node else alternatives(self._table, context)
                edges = self.edges(contexts[node], len(context) + tree.depths[node], least, before)
                if allowed := self._constraint(context, partial(tree.path, node)):
                    edges = self._narrowed(edges, allowed)
            if place < len(edges):
                pushed += 1
                chance = min(edges[place][0] * trust, SUREST)
                heappush(heap, (-tree.reaches[node] * chance, pushed, node, edges, place))
        return tree

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        """The model went on with these tokens: how good were the guesses at each of them?"""
        line = list(context[-LONGEST:])
        before = alternatives(self._table, context)
        for place, token in enumerate(accepted):
            edges = self.edges(line[-LONGEST:], len(context) + place, before=before)
            before = NO_ALTERNATIVES
            if allowed := self._constraint(context, partial(_beginning, accepted, place)):
                edges = self._narrowed(edges, allowed)
            for chance, guess, cell in edges[:1]:
                if cell != FORCED:
                    self._estimator.observe_best(chance, guess == token)
            for _, guess, cell in edges:
                self._estimator.observe(cell, guess == token)
            line.append(token)

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        """One likely line of `length` tokens behind a context; where nothing is known, the context once more."""
        line = list(context)
        while len(line) < len(context) + length:
            edges = self.edges(line[-LONGEST:], len(line))
            line.append(edges[0][1] if edges else context[len(line) % len(context)])
        return line[len(context) :]

    def edges(
        self,
        context: Sequence[int],
        position: int,
        least: float = 0.0,
        before: Mapping[int, int] = NO_ALTERNATIVES,
    ) -> list[Edge]:
        """Guesses of the token at this position, behind a context, at least so likely; likeliest first.

        `before` are alternatives to the context's last token: token -> gap class."""
        successors_found, successor_length, followers_found, follower_length = self._table.lookup(context)
        rates = self._estimator.rates
        codes = self._follower_codes(followers_found, follower_length) if follower_length else {}
        likely = (
            self._successor_codes(successors_found, successor_length, position) if successors_found else {}
        )
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

    def _successor_codes(self, found: Sequence[int], length: int, position: int) -> dict[int, int]:
        """Token -> successor code, the expected one first."""
        first = successor_code(length, 0)
        return {token: first + gap for token, gap in self._rank(found, position)}

    def _narrowed(self, edges: Sequence[Edge], allowed: Allowed) -> list[Edge]:
        """Those that a grammar allows, behind the one that it forces. How well guesses go is no matter to that."""
        forced = allowed.forced
        chance = min(self._estimator.rates[FORCED], SUREST) / self._estimator.trust
        found = [(chance, token, FORCED) for token in forced]
        return found + [edge for edge in edges if edge[1] in allowed and edge[1] not in forced]

    def _follower_codes(self, followers_found: Sequence[int], length: int) -> dict[int, int]:
        """Token -> seen code, newest first."""
        codes: dict[int, int] = {}
        older, reply = 0, self._reply
        first, stride = follower_code(0, length, 0), LONGEST * RANKS
        for packed in followers_found:
            token, source, is_new = unpack_follower(packed, reply)
            codes[token] = first + source * stride + older + is_new
            older = 2
        return codes
