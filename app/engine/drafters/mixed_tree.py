"""Grows draft trees from the pool's and a draft model's guesses together, the likeliest guess first.

If the text is likely enough to reach a node (`draft_model_budget.py`), the draft model is asked as well, and both
kinds of guesses are joined (`draft_model_chances.py`). So the draft model follows the pool's guesses, and
continues alone after nodes that the pool does not know.

The pool's own tree is grown, too, which takes microseconds in C. The text leaves a tree at the first token
that the tree did not guess. When the text has left both trees, the draft model has gained the right tokens
of the joint tree minus those of the pool's tree. While chance alone may explain its gains, the target (the
model that writes the reply) checks the pool's tree, and the draft model's guesses are only counted:

    text ... A B C D      joint tree A x      1 right token, left at B
                          pool's tree A B C   3 right tokens, left at D     the draft model has gained -2
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.engine.block.block import MAX_DEPTH
from app.engine.drafters.draft_model import DraftModel
from app.engine.drafters.draft_model_chances import DraftModelChances, Judged, LearnedWeights
from app.engine.lookahead.draft_model_budget import FIRST_GAIN, DraftModelBudget
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.drafter import Drafter, DraftSources, Edge, FindEdges, MakeDrafter, grow


@dataclass(frozen=True, slots=True)
class DraftModelStatistics:
    """The gain of a draft model (`draft_model_budget.py`), and the weights by `round(2 * temperature)`."""

    gain: float = FIRST_GAIN
    weights: Mapping[int, LearnedWeights] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not -MAX_DEPTH <= self.gain <= MAX_DEPTH:
            raise ValueError(f"the gain must be from -{MAX_DEPTH} to {MAX_DEPTH} tokens, not {self.gain}")


class DraftModelSource:
    """A draft model, the chances of its guesses, and the budget that decides when the model is asked."""

    def __init__(self, model: DraftModel, budget: DraftModelBudget) -> None:
        self.model, self.budget = model, budget
        self._chances: dict[int, DraftModelChances] = {}

    @property
    def statistics(self) -> DraftModelStatistics:
        """What is stored about the draft model between runs of the app. It contains no text."""
        return DraftModelStatistics(
            self.budget.gain, {kind: one.learned for kind, one in self._chances.items()}
        )

    def recall(self, statistics: DraftModelStatistics) -> None:
        """Start from what was learned in an earlier run."""
        self.budget.expect(statistics.gain)
        self._chances = {kind: DraftModelChances(one) for kind, one in statistics.weights.items()}

    def chances(self, temperature: float) -> DraftModelChances:
        """Return the chances at this temperature, rounded to halves. New chances start from those of the nearest
        temperature."""
        kind = round(2 * temperature)
        if kind not in self._chances:
            known = min(self._chances, key=lambda other: abs(other - kind), default=kind)
            learned = self._chances[known].learned if known != kind else None
            self._chances[kind] = DraftModelChances(learned)
        return self._chances[kind]

    def drafters(self, make: MakeDrafter) -> MakeDrafter:
        """Return a function whose drafters join the draft model's guesses with those of `make`'s drafters."""
        return lambda sources: ModelDrafter(self, make(sources), sources)


@dataclass(slots=True)
class _Drafted:
    """The trees that were grown after a text: the joint tree, and the pool's own (`alone`)."""

    text: int  # number of tokens up to the current token
    joint: DraftTree
    alone: DraftTree
    fed: DraftTree  # the tree that the target checks; nodes from len(fed) on are not counted in either tree
    reach: float = 0.0  # the sum of the reaches of all nodes that the draft model was asked about
    judged: dict[int, list[Judged]] = field(default_factory=dict)

    def learn(self, written: Sequence[int], chances: DraftModelChances, budget: DraftModelBudget) -> bool:
        """Learn from the tokens written after the draft; return whether the text has left both trees."""
        path, alone = _followed(self.joint, written), _followed(self.alone, written)
        for node, token in zip(path, written, strict=False):
            if judged := self.judged.pop(node, None):
                chances.observe(judged, token)
        if max(len(path), len(alone)) > len(written):
            return False
        right, right_alone = (sum(node < len(self.fed) for node in nodes) for nodes in (path, alone))
        budget.learn(right - right_alone, self.reach)
        return True


class ModelDrafter:
    """Joins a draft model's guesses with those of another drafter (`alone`), for one reply."""

    def __init__(self, source: DraftModelSource, alone: Drafter, sources: DraftSources) -> None:
        self._model, self._budget = source.model, source.budget
        self._chances = source.chances(sources.sampling.temperature)
        self._alone, self._sources = alone, sources
        # These concern only the pool's own guesses. The next `draft` judges the draft model's guesses.
        self.edges, self.observe, self.learn_successors = alone.edges, alone.observe, alone.learn_successors
        self._drafted: list[_Drafted] = []  # trees that the text has not left yet

    def draft(self, context: Sequence[int], rows: int, depth: int, floor: float) -> DraftTree:
        """Learn from the trees of earlier steps, then grow the best tree."""
        self._drafted = [
            one for one in self._drafted if not one.learn(context[one.text :], self._chances, self._budget)
        ]
        alone = self._alone.draft(context, rows, depth, floor)
        if depth < 1 or rows < 2 or len(context) > self._model.context:
            return alone
        unread = self._model.follow(context)
        least = self._budget.least(unread)
        if least > 1:
            return alone
        before, joint = self._model.seconds, DraftTree([context[-1]])
        drafted = _Drafted(len(context), joint, alone, alone)
        drafted.joint = grow(self._sources, context, rows, depth, floor, self._finder(drafted, least))
        self._budget.asked(self._model.seconds - before, max(len(drafted.judged), 1), unread)
        self._drafted.append(drafted)
        drafted.fed = drafted.joint if self._budget.is_worth_rows else alone
        return drafted.fed

    def _finder(self, drafted: _Drafted, least_asked: float) -> FindEdges:
        trust = self._sources.estimator.trust

        def find(tree: DraftTree, node: int, near: Sequence[int], least: float) -> list[Edge]:
            del least
            depth = tree.depths[node]
            edges = self.edges(near, drafted.text + depth, not node)
            if tree.reaches[node] < least_asked:
                return edges
            proposed = self._model.propose(tree.path(node), self._sources.sampling)
            if not proposed:
                return edges
            joined, drafted.judged[node] = self._chances.joined(depth, proposed, edges, trust)
            drafted.reach += tree.reaches[node]
            return joined

        return find


def _followed(tree: DraftTree, written: Sequence[int]) -> list[int]:
    """Return the path of nodes that guessed the written tokens, from the current token's node on."""
    nodes = [0]
    for token in written:
        below = tree.child(nodes[-1], token)
        if below is None:
            break
        nodes.append(below)
    return nodes
