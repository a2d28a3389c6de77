"""Verification: which draft tokens the model accepts, where the reply ends, and which rows are committed.

Verification walks down the tree from the current token. At each node it samples the model's next token; if a
child guesses that token, the walk continues there, else it ends. Only sampled tokens are emitted, so the text
is the model's own whatever was drafted. If a whole line of guesses is right, the step yields one token more
than was drafted:

    tree 7 -> 8 -> 9, the model samples 8, 9, 4:   rows 0 1 2 are kept, tokens 8 9 4 are new

If the reply ends within the accepted tokens, they are truncated before they reach cache, text and pool.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.block.block import chain_block
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Step
from app.engine.sampling.sampling import Choices, Choose, Sampler
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import Origin, StopReason
from app.values.reply_statistics import StepTrace


@dataclass(frozen=True, slots=True)
class AcceptedPath:
    """The new tokens and their origins; the rows from whose logits they were drawn, which the cache keeps; and why
    the reply ends, if it does."""

    tokens: tuple[int, ...]
    origins: tuple[Origin, ...]
    rows: tuple[int, ...]
    reason: StopReason | None = None


def verify(tree: DraftTree, choose: Choose, history: list[int]) -> AcceptedPath:
    """Follow the model's choices through the tree. `history` ends with the current token. New tokens are appended
    to `history` for `choose`, and removed at the end, because copying a long text takes time."""
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


def most_drafts(runner: ModelRunner, tokens: Sequence[int], stopper: StoppingCriteria) -> int:
    """Return how many guesses in a line the limits of the reply, the runner and a block allow in the next step."""
    position = len(tokens) - 1
    return min(stopper.left, runner.horizon(position) - position, runner.max_rows) - 1


def verify_and_commit(
    runner: ModelRunner, tree: DraftTree, choose: Choose, tokens: list[int], stopper: StoppingCriteria
) -> AcceptedPath:
    """Verify, truncate the path where the reply ends, and commit its rows. `tokens` stays unchanged."""
    path = verify(tree, choose, tokens)
    cut = stopper.cut(path.tokens)
    kept = slice(cut.kept)
    runner.commit(path.rows[kept])
    return AcceptedPath(path.tokens[kept], path.origins[kept], path.rows[kept], cut.reason)


def trace_of(
    tree: DraftTree, choices: Choices, accepted: tuple[int, ...], window: tuple[tuple[int, ...], ...] = ()
) -> StepTrace:
    """Make the trace of a step that fed this tree and window; the first rows of `choices` are the tree's."""
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
    """Run a whole step with one line of guesses, for prompt lookup and Jacobi iteration. Appends the right guesses
    and the model's next token to `tokens`. Returns the step and the choices of its rows."""
    tree = DraftTree([tokens[-1]])
    for node, (token, origin) in enumerate(zip(guesses, origins, strict=True)):
        tree.add(node, token, origin)
    wanted, rows = tuple(range(len(tree))), len(tree) + runner.pending
    logits = runner.forward(chain_block(tree.tokens, len(tokens) - 1, wanted))
    choices = sampler(logits, positions=range(len(tokens), len(tokens) + len(tree)))
    kept = verify_and_commit(runner, tree, choices.choose, tokens, stopper)
    tokens += kept.tokens
    trace = trace_of(tree, choices, kept.rows)
    return Step(kept.tokens, kept.origins, rows, bool(guesses), reason=kept.reason, trace=trace), choices
