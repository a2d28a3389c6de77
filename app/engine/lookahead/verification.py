"""Which drafted tokens the model itself would have written.

Walk down from the current token: draw what the model says there; while that is a child, go on below it. The
drawn token is always emitted, so the text is the model's own whatever was drafted, and a full match earns one
token more than was drafted:

    tree 7 -> 8 -> 9, the model says 8, 9, 4:   rows 0 1 2 are kept, tokens 8 9 4 are new
"""

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.lookahead.draft_tree import DraftTree
from app.engine.runner import Runner
from app.engine.sampling import Choices, Choose
from app.engine.stopping import Stopper
from app.messages import Origin, StopReason
from app.step_trace import StepTrace


@dataclass(frozen=True, slots=True)
class AcceptedPath:
    """New tokens, who proposed each, and the row in which each was drawn: the rows whose keys are kept."""

    tokens: tuple[int, ...]
    origins: tuple[Origin, ...]
    rows: tuple[int, ...]


def verify(tree: DraftTree, choose: Choose, history: Sequence[int]) -> AcceptedPath:
    """Follow the model through the tree; `history` are all tokens up to the current one, that included."""
    path = list(history)
    rows, origins = [0], list[Origin]()
    while True:
        token = choose(rows[-1], path)
        path.append(token)
        node = tree.child(rows[-1], token)
        if node is None:
            return AcceptedPath(tuple(path[len(history) :]), (*origins, "model"), tuple(rows))
        origins.append(tree.origins[node])
        rows.append(node)


@dataclass(frozen=True, slots=True)
class CommittedTokens:
    """A step's tokens, who proposed each, the rows that the runner has kept, and why the reply ends with them."""

    tokens: tuple[int, ...]
    origins: tuple[Origin, ...]
    rows: tuple[int, ...]
    reason: StopReason | None


def most_drafts(runner: Runner, tokens: Sequence[int], stopper: Stopper) -> int:
    """How many guesses in a line the next step may carry.

    They end with the reply, before the runner's horizon, and a block is no wider than the runner takes."""
    position = len(tokens) - 1
    return min(stopper.left, runner.horizon(position) - position, runner.max_rows) - 1


def verify_and_commit(
    runner: Runner, tree: DraftTree, choose: Choose, tokens: Sequence[int], stopper: Stopper
) -> CommittedTokens:
    """Verify, cut, and commit the rows that stay; `tokens` is left as it is."""
    accepted = verify(tree, choose, tokens)
    cut = stopper.cut(accepted.tokens)
    rows = accepted.rows[: cut.kept]
    runner.commit(rows)
    return CommittedTokens(accepted.tokens[: cut.kept], accepted.origins[: cut.kept], rows, cut.reason)


def trace_of(
    tree: DraftTree, choices: Choices, accepted: tuple[int, ...], window: tuple[tuple[int, ...], ...] = ()
) -> StepTrace:
    """The step that fed this tree, whose rows are the first of the choices, and this window."""
    return StepTrace(
        tokens=tuple(tree.tokens),
        parents=tuple(tree.parents),
        origins=tuple(tree.origins),
        said=tuple(choices.ids[: len(tree), 0].tolist()),
        accepted=accepted,
        window=window,
    )
