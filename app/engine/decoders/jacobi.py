"""Jacobi iteration (Santilli et al. 2023): guess the next tokens, let the model correct them all at once, repeat.

The text is the fixed point of "each token is what the model predicts from the tokens before it". A step feeds
the current token and a window of guesses. Every row predicts the token after its own, and these predictions
are the next guesses. Row 0 holds the current token, so its prediction is right however bad the guesses were,
and each step commits at least one token. In this example the model predicts the second-last token plus one, so
that it writes 1 1 2 2 3 3 ...; the window has 3 guesses, which start as 1 1 1:

    text 1, then fed        1 | 1 1 1    predicted  2 2 2 2    the first guess was wrong: 2 is committed
    text 1 1, then fed      2 | 2 2 2    predicted  2 3 3 3    the first guess was right: 2 3 are committed
    text 1 1 2 2, then fed  3 | 3 3 3    predicted  3 4 4 4    3 4 are committed: two tokens a step from now on

Each row's prediction is drawn with the noise of its own position, so a sampled text has a fixed point as well.
"""

from collections.abc import Iterator
from dataclasses import replace

from app.engine.lookahead.verification import most_drafts, try_chain
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Step
from app.engine.sampling.sampling import Sampler
from app.engine.text.stopping_criteria import StoppingCriteria


def jacobi(
    runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria, *, width: int
) -> Iterator[Step]:
    """Yield the steps of a reply: feed a window of `width` guesses; commit the right guesses and the next token.

    With width 0 it is plain decoding."""
    guesses = [tokens[-1]] * width
    reason = None
    while reason is None:
        tried = guesses[: most_drafts(runner, tokens, stopper)]
        step, choices = try_chain(runner, tokens, tried, ["window"] * len(tried), sampler, stopper)
        reason = step.reason
        if reason is None:
            done = len(step.tokens)
            path = [*tokens[:-1], *tried[done - 1 : done]]
            refined = []  # predictions of the rows after the first wrong guess
            for row in range(done, len(tried) + 1):
                refined.append(choices.choose(row, path))
                path += tried[row : row + 1]
            # Missing guesses start as copies of the current token, because their first value hardly matters.
            guesses = [*refined, *guesses[len(tried) + 1 :], *tokens[-1:] * width][:width]
        # The chain that the step fed is shown in the trace both as a tree and as the window.
        window = (step.trace.tokens,) if tried else ()
        yield replace(step, trace=replace(step.trace, window=window))
