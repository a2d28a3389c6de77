"""The pool: what is known about which tokens follow which. A drafter (drafter.py) makes guesses from it.

Successors are the model's own likeliest tokens after a context of one to four tokens; for single tokens they are
also measured at load and while the model is idle. Followers are tokens that came after a context in a text: the
prompt, the reply so far, columns of the window (jacobi_window.py), documents, a predicted output and earlier turns.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from app.engine.block.block import common_length
from app.engine.block.context_entries import pack_follower
from app.engine.lookahead.acceptance_estimator import AcceptanceEstimator
from app.engine.lookahead.context_table import LONGEST, ContextTable
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.drafter import GREEDY, DraftSources, Edge, MakeDrafter, PythonDrafter
from app.engine.sampling.penalties import Constraint, unconstrained
from app.values.messages import MAX_ROWS, Origin, Sampling


class Pool:
    """The pool of one chat. A branch of a draft ends at a `special` token."""

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
        self._drafter = make_drafter(DraftSources(table, estimator, special))

    def __len__(self) -> int:
        return self._learned

    def is_continued_by(self, text: Sequence[int]) -> bool:
        """Return whether a text begins with the prompt of the newest reply, and so continues this chat."""
        return common_length(self._text, text) >= self._prompt_length

    def begin(
        self,
        text: Sequence[int],
        estimator: AcceptanceEstimator,
        sampling: Sampling = GREEDY,
        constraint: Constraint = unconstrained,
        branches: int = MAX_ROWS,
    ) -> None:
        """Begin a reply and learn the new part of `text`, the prompt with the reply's first token.

        Followers learned in earlier replies now count as history, except those of documents and predictions."""
        self._reply += 1
        sources = DraftSources(
            self.table, estimator, self._special, sampling, self._reply, constraint, branches
        )
        self._drafter = self._make_drafter(sources)
        known = common_length(self._text, text)
        self._text = list(text[:known])
        self.learn(text, len(text) - known, "prompt")
        self._prompt_length = len(text) - 1  # without the reply's first token

    def learn_document(self, document: Sequence[int], origin: Origin = "document") -> None:
        """Learn a text to quote from, unless it was learned already."""
        if tuple(document) not in self._documents:
            self._documents.add(tuple(document))
            self.learn(document, len(document), origin)

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        """Learn each of the last `new` tokens of a text as a follower of the tokens before it.

        Tokens of the prompt and the output are also added to the chat's text."""
        for end in range(max(len(text) - new, 1), len(text)):
            entry = pack_follower(text[end], origin, self._reply)
            self._learned += self.table.learn_follower(text[max(end - LONGEST, 0) : end], entry)
        if origin in ("prompt", "output"):
            self._text += text[len(text) - new :]

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        self._drafter.learn_successors(contexts, ids, logits)

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        return self._drafter.draft(context, rows, depth, floor)

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        self._drafter.observe(context, accepted)

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        """Guess the next `length` tokens, one after another. If nothing is known, repeat a token of the context."""
        line = list(context)
        while len(line) < len(context) + length:
            edges = self.edges(line[-LONGEST:], len(line))
            line.append(edges[0][1] if edges else context[len(line) % len(context)])
        return line[len(context) :]

    def edges(self, context: Sequence[int], position: int) -> list[Edge]:
        return self._drafter.edges(context, position)
