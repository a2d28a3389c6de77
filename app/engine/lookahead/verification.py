"""Verification: which draft tokens the model accepts, where the reply ends, and which rows are committed.

Walk down from the current token: sample the model's token there; while that is a child, go on below it. The sampled
token is always emitted, so the text is the model's own whatever was drafted, and a full match earns one token more
than was drafted:

    tree 7 -> 8 -> 9, the model says 8, 9, 4:   rows 0 1 2 are kept, tokens 8 9 4 are new

The accepted tokens are cut once, where the reply ends, before cache, text and pool see them. `try_chain` is a whole
step with one line of guesses, which prompt lookup and Jacobi iteration share: a draft tree without branches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.block.block import chain_block
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Step
from app.engine.sampling.sampling import Choices, Choose, Sampler
from app.engine.text.reply_text import StoppingCriteria
from app.values.messages import Origin, StopReason
from app.values.trace import StepTrace


@dataclass(frozen=True, slots=True)
class AcceptedPath:
    """New tokens, who proposed each, and the row in which each was drawn: the rows whose keys are kept."""

    tokens: tuple[int, ...]
    origins: tuple[Origin, ...]
    rows: tuple[int, ...]


def verify(tree: DraftTree, choose: Choose, history: list[int]) -> AcceptedPath:
    """Follow the model through the tree; `history` are all tokens up to the current one, that included.

    While the model is asked, the accepted tokens stand behind them: a long text is not copied."""
    length, rows, origins = len(history), [0], list[Origin]()
    try:
        while True:
            token = choose(rows[-1], history)
            history.append(token)
            node = tree.child(rows[-1], token)
            if node is None:
                return AcceptedPath(tuple(history[length:]), (*origins, "model"), tuple(rows))
            origins.append(tree.origins[node])
            rows.append(node)
    finally:
        del history[length:]


@dataclass(frozen=True, slots=True)
class CommittedTokens:
    """A step's tokens, who proposed each, the rows that the runner has kept, and why the reply ends with them."""

    tokens: tuple[int, ...]
    origins: tuple[Origin, ...]
    rows: tuple[int, ...]
    reason: StopReason | None


def most_drafts(runner: ModelRunner, tokens: Sequence[int], stopper: StoppingCriteria) -> int:
    """How many guesses in a line the next step may have.

    They end with the reply, before the runner's horizon, and a block is no wider than the runner takes."""
    position = len(tokens) - 1
    return min(stopper.left, runner.horizon(position) - position, runner.max_rows) - 1


def verify_and_commit(
    runner: ModelRunner, tree: DraftTree, choose: Choose, tokens: list[int], stopper: StoppingCriteria
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
        predicted=tuple(choices.ids[: len(tree), 0].tolist()),
        accepted=accepted,
        window=window,
    )


def try_chain(
    runner: ModelRunner,
    tokens: list[int],
    guesses: Sequence[int],
    origins: Sequence[Origin],
    sampler: Sampler,
    stopper: StoppingCriteria,
) -> tuple[Step, Choices]:
    """Feed the guesses, commit those that the model agrees with and append them to `tokens`.

    Returns the step and what each row chose."""
    tree = DraftTree(tokens[-1])
    for node, (token, origin) in enumerate(zip(guesses, origins, strict=True)):
        tree.add(node, token, origin)
    wanted, rows = tuple(range(len(tree))), len(tree) + runner.pending
    logits = runner.forward(chain_block(tree.tokens, len(tokens) - 1, wanted))
    choices = sampler(logits, positions=range(len(tokens), len(tokens) + len(tree)))
    kept = verify_and_commit(runner, tree, choices.choose, tokens, stopper)
    tokens += kept.tokens
    trace = trace_of(tree, choices, kept.rows)
    return Step(kept.tokens, kept.origins, rows, bool(guesses), reason=kept.reason, trace=trace), choices
