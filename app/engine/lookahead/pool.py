"""The pool: what is known about which tokens follow which. It drafts and learns through a drafter (drafter.py).

It has two kinds of knowledge about each context. The model's own successors cost nothing, since every row of every
step computes them; those of each single token are measured once, at load. Followers come from texts: the prompt,
the reply so far, the window's lines, documents and earlier turns. A drafter (drafter.py) grows trees from both.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from app.engine.block.block import common_length
from app.engine.block.entries import pack_follower
from app.engine.lookahead.acceptance_estimator import AcceptanceEstimator
from app.engine.lookahead.context_table import LONGEST, ContextTable
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.drafter import GREEDY, DraftSources, Edge, MakeDrafter, PythonDrafter
from app.engine.sampling.logits_processing import Constraint, unconstrained
from app.values.messages import MAX_ROWS, Origin, Sampling


class Pool:
    """The pool of one chat. `special` tokens may end a guess and are never followed by another."""

    def __init__(
        self,
        table: ContextTable,
        estimator: AcceptanceEstimator,
        special: Collection[int] = (),
        make_drafter: MakeDrafter = PythonDrafter,
    ) -> None:
        self.table = table
        self._special = special
        self._make_drafter = make_drafter
        self._text: list[int] = []
        self._prompt_length = 0
        self._learned = 0
        self._reply = 0
        self._documents: set[tuple[int, ...]] = set()
        self._draft_from(estimator, GREEDY, unconstrained, MAX_ROWS)

    def __len__(self) -> int:
        return self._learned

    def goes_on(self, text: Sequence[int]) -> bool:
        """Whether a text begins with all that was the prompt when the newest reply began."""
        return common_length(self._text, text) >= self._prompt_length

    def begin(
        self,
        text: Sequence[int],
        estimator: AcceptanceEstimator,
        sampling: Sampling = GREEDY,
        constraint: Constraint = unconstrained,
        branches: int = MAX_ROWS,
    ) -> None:
        """Begin a reply to this text. What it has in common with the text so far is history from now on."""
        self._reply += 1
        self._draft_from(estimator, sampling, constraint, branches)
        known = common_length(self._text, text)
        self._text = list(text[:known])
        self.learn(text, len(text) - known, "prompt")
        self._prompt_length = len(text) - 1  # its last token is the reply's first

    def _draft_from(
        self, estimator: AcceptanceEstimator, sampling: Sampling, constraint: Constraint, branches: int
    ) -> None:
        sources = DraftSources(
            self.table, estimator, self._special, sampling, self._reply, constraint, branches
        )
        self._drafter = self._make_drafter(sources)

    def learn_document(self, document: Sequence[int], origin: Origin = "document") -> None:
        """File a text to quote from, but only once: reading it again for another reply teaches nothing."""
        if tuple(document) not in self._documents:
            self._documents.add(tuple(document))
            self.learn(document, len(document), origin)

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        """File the last `new` tokens of a line of text after the tokens before them."""
        for end in range(max(len(text) - new, 1), len(text)):
            entry = pack_follower(text[end], origin, self._reply)
            self._learned += self.table.learn_follower(text[max(end - LONGEST, 0) : end], entry)
        if origin in ("prompt", "output"):
            self._text += text[len(text) - new :]

    def expect(self, contexts: NDArray[np.int64]) -> None:
        self._drafter.expect(contexts)

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        self._drafter.learn_successors(contexts, ids, logits)

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        return self._drafter.draft(context, rows, depth, floor)

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        self._drafter.observe(context, accepted)

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        """Write one likely line of `length` tokens after a context; it repeats the context if nothing is known."""
        line = list(context)
        while len(line) < len(context) + length:
            edges = self.edges(line[-LONGEST:], len(line))
            line.append(edges[0][1] if edges else context[len(line) % len(context)])
        return line[len(context) :]

    def edges(self, context: Sequence[int], position: int) -> list[Edge]:
        return self._drafter.edges(context, position)
