"""Draft trees from the pool and a draft model together, best edge first, whoever knows it.

While a tree grows, its nodes are looked up in the order of their reach. Behind nodes that are reached often enough
(`draft_model_budget.py`) the draft model is asked as well, and the edges of both are joined
(`draft_model_chances.py`). So it looks where the pool's guesses lead, and goes on alone where the pool knows
nothing.

The pool's own tree is grown, too, which takes microseconds where it is grown in C: what it would have had accepted
says what the draft model brings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from app.engine.block import MAX_DEPTH
from app.engine.lookahead.draft_model import DraftModel
from app.engine.lookahead.draft_model_budget import FIRST_GAIN, DraftModelBudget
from app.engine.lookahead.draft_model_chances import DraftModelChances, Judged, LearnedWeights
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.drafter import Drafter, DraftSources, Edge, MakeDrafter, grow


@dataclass(frozen=True, slots=True)
class Lessons:
    """What was learned of a draft model: the tokens that a question brings, and weights by kind of temperature."""

    gain: float = FIRST_GAIN
    weights: Mapping[int, LearnedWeights] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not -MAX_DEPTH <= self.gain <= MAX_DEPTH:
            raise ValueError(f"a question brings some tokens or costs some, got {self.gain}")


class DraftModelSource:
    """A draft model beside a pool: the model, what its guesses are worth, and when it is asked."""

    def __init__(self, model: DraftModel, budget: DraftModelBudget) -> None:
        self.model, self.budget = model, budget
        self._chances: dict[int, DraftModelChances] = {}

    @property
    def lessons(self) -> Lessons:
        """What is to be kept; it holds nothing of what was written."""
        return Lessons(self.budget.gain, {kind: one.learned for kind, one in self._chances.items()})

    def recall(self, lessons: Lessons) -> None:
        """Begin with what was learned in an earlier run."""
        self.budget.expect(lessons.gain)
        self._chances = {kind: DraftModelChances(one) for kind, one in lessons.weights.items()}

    def chances(self, temperature: float) -> DraftModelChances:
        """At this temperature, in steps of a half."""
        return self._chances.setdefault(round(2 * temperature), DraftModelChances())

    def drafters(self, make: MakeDrafter) -> MakeDrafter:
        """Drafters that join it with what these draft."""
        return partial(_make, self, make)


@dataclass(slots=True)
class _Drafted:
    """A step's tree, which the planner may cut short, the pool's own, and what was asked behind which nodes."""

    text: int  # tokens up to the current one
    tree: DraftTree
    alone: DraftTree
    reach: float = 0.0
    judged: dict[int, list[Judged]] = field(default_factory=dict)


class ModelDrafter:
    """Joins a draft model's guesses with those of another drafter, for one reply."""

    def __init__(self, source: DraftModelSource, alone: Drafter, sources: DraftSources) -> None:
        self._model, self._budget = source.model, source.budget
        self._chances = source.chances(sources.sampling.temperature)
        self._alone, self._sources = alone, sources
        self._newest: list[_Drafted] = []

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        """The best tree of at most `rows` nodes and `depth` guesses in a line, none less likely than `floor`."""
        self._learn(context)
        alone = self._alone.draft(context, rows, depth, floor)
        if depth < 1 or rows < 2 or len(context) > self._model.context:
            return alone
        unread = self._model.follow(context)
        least = self._budget.least(unread)
        if least > 1:
            return alone
        before, drafted = self._model.seconds, _Drafted(len(context), DraftTree(context[-1]), alone)
        drafted.tree = grow(self._sources, context, rows, depth, floor, self._finder(drafted, least))
        self._budget.asked(self._model.seconds - before, max(len(drafted.judged), 1), unread)
        self._newest = [drafted]
        return drafted.tree

    def edges(self, context: Sequence[int], position: int, is_current: bool = False) -> list[Edge]:
        """The pool's guesses alone: what it is to be judged by, and what a window starts from."""
        return self._alone.edges(context, position, is_current)

    def observe(self, context: Sequence[int], accepted: Sequence[int]) -> None:
        """The pool's guesses are judged; the draft model's are judged by the next step (`_learn`)."""
        self._alone.observe(context, accepted)

    def expect(self, contexts: NDArray[np.int64]) -> None:
        """Successors will be filed behind these contexts [R, 4]."""
        self._alone.expect(contexts)

    def learn_successors(
        self, contexts: NDArray[np.int64], ids: NDArray[np.int64], logits: NDArray[np.float32]
    ) -> None:
        """File the likeliest tokens and their logits [R, K], best first, behind these contexts."""
        self._alone.learn_successors(contexts, ids, logits)

    def _finder(
        self, drafted: _Drafted, least_asked: float
    ) -> Callable[[DraftTree, int, Sequence[int], float], list[Edge]]:
        trust = self._sources.estimator.trust

        def find(tree: DraftTree, node: int, near: Sequence[int], least: float) -> list[Edge]:
            del least
            depth = tree.depths[node]
            edges = self._alone.edges(near, drafted.text + depth, not node)
            if tree.reaches[node] < least_asked:
                return edges
            proposed = self._model.propose(tree.path(node), self._sources.sampling)
            if not proposed:
                return edges
            joined, drafted.judged[node] = self._chances.joined(depth, proposed, edges, trust)
            drafted.reach += tree.reaches[node]
            return joined

        return find

    def _learn(self, text: Sequence[int]) -> None:
        """What became of the newest tree."""
        while self._newest:
            drafted = self._newest.pop()
            said, rows = text[drafted.text :], len(drafted.tree)
            path, alone = _followed(drafted.tree, said), _followed(drafted.alone, said)
            self._budget.learn(len(path) - sum(node < rows for node in alone), drafted.reach)
            for node, token in zip(path, said, strict=False):
                if node in drafted.judged:
                    self._chances.observe(drafted.judged[node], token)


def _followed(tree: DraftTree, said: Sequence[int]) -> list[int]:
    """The nodes that the text went through, the current token's first: each stands behind the one before it."""
    nodes = [0]
    for token in said:
        below = tree.child(nodes[-1], token)
        if below is None:
            break
        nodes.append(below)
    return nodes


def _make(source: DraftModelSource, make: MakeDrafter, sources: DraftSources) -> Drafter:
    return ModelDrafter(source, make(sources), sources)
