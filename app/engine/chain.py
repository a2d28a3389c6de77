"""One step with one line of guesses behind the current token: what prompt lookup and Jacobi iteration share.

    current token 7, guesses 8 9 5, the model says 8 behind 7, 9 behind 8 and 4 behind 9:

    row     0  1  2  3
    fed     7  8  9  5
    says    8  9  4  .        rows 0 1 2 are kept, the tokens 8 9 4 are new

The guesses are a draft tree without branches, so that what `acceptance.py` decides for trees is decided here, too.
"""

from collections.abc import Sequence

from app.engine.block import chain_block
from app.engine.lookahead.draft_tree import DraftTree
from app.engine.lookahead.verification import trace_of, verify_and_commit
from app.engine.runner import Runner
from app.engine.sampling import Choices, Sampler
from app.engine.step import Step
from app.engine.stopping import Stopper
from app.messages import Origin


def try_chain(
    runner: Runner,
    tokens: list[int],
    guesses: Sequence[int],
    origins: Sequence[Origin],
    sampler: Sampler,
    stopper: Stopper,
) -> tuple[Step, Choices]:
    """Feed the guesses, commit what the model agrees with, append it to `tokens`; and what each row said."""
    tree = _chain(tokens[-1], guesses, origins)
    wanted = tuple(range(len(tree)))
    logits = runner.forward(chain_block(tree.tokens, len(tokens) - 1, wanted))
    choices = sampler(logits, positions=range(len(tokens), len(tokens) + len(tree)))
    kept = verify_and_commit(runner, tree, choices.choose, tokens, stopper)
    tokens += kept.tokens
    trace = trace_of(tree, choices, kept.rows)
    return Step(kept.tokens, kept.origins, len(tree), bool(guesses), reason=kept.reason, trace=trace), choices


def _chain(current: int, guesses: Sequence[int], origins: Sequence[Origin]) -> DraftTree:
    tree = DraftTree(current)
    for node, (token, origin) in enumerate(zip(guesses, origins, strict=True)):
        tree.add(node, token, origin)
    return tree
