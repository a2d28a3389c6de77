"""What a step may draft, and what stays of it: the end rules that every drafting decoder keeps alike.

The tokens that the model agrees with are cut once, where the reply ends, before cache, text and pool see them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.verification import verify
from app.engine.runner import Runner
from app.engine.sampling import Choose
from app.engine.stopping import Stopper
from app.messages import Origin, StopReason


@dataclass(frozen=True, slots=True)
class Committed:
    """A step's tokens, who proposed each, the rows that the runner has kept, and why the reply ends with them."""

    tokens: tuple[int, ...]
    origins: tuple[Origin, ...]
    rows: tuple[int, ...]
    reason: StopReason | None


def room(runner: Runner, tokens: Sequence[int], stopper: Stopper) -> int:
    """How many guesses in a line the next step may carry.

    They end with the reply, before the runner's horizon, and a block is no wider than the runner takes."""
    position = len(tokens) - 1
    return min(stopper.left, runner.horizon(position) - position, runner.limit) - 1


def accept(
    runner: Runner, tree: DraftTree, choose: Choose, tokens: Sequence[int], stopper: Stopper
) -> Committed:
    """Verify, cut, and commit the rows that stay; `tokens` is left as it is."""
    accepted = verify(tree, choose, tokens)
    cut = stopper.cut(accepted.tokens)
    rows = accepted.rows[: cut.kept]
    runner.commit(rows)
    return Committed(accepted.tokens[: cut.kept], accepted.origins[: cut.kept], rows, cut.reason)
