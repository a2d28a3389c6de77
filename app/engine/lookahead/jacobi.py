"""Jacobi iteration (Santilli et al. 2023): guess the next tokens, let the model correct them all at once, again.

The text is the fixed point of "each token is what the model says behind the ones before it". A step feeds the
current token and a window of guesses; every row says what it would have written, and those are the next guesses.
However bad the guesses were, row 0 is always right, so that no step stands still. A model that looks at the
second last token alone and says one more, 1 1 2 2 3 3 ..., with a window of 3 that starts from 1 1 1:

    text 1, then fed        1 | 1 1 1    says  2 2 2 2    the first guess was wrong: 2 is committed
    text 1 1, then fed      2 | 2 2 2    says  2 3 3 3    the first guess was right: 2 3 are committed
    text 1 1 2 2, then fed  3 | 3 3 3    says  3 4 4 4    3 4 are committed: two tokens a step from now on

Places that become free at the window's end start from the current token: what stands there hardly matters.
What a row says is drawn with the noise of its own position, so a sampled text has a fixed point as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.engine.lookahead.verification import most_drafts, try_chain
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Decoder, Step
from app.engine.sampling.sampling import Choose, Sampler
from app.engine.text.reply_text import StoppingCriteria


def make_jacobi(width: int) -> Decoder:
    """The decoder with a window of so many guesses; with none it is plain decoding."""

    def decode(
        runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
    ) -> Iterator[Step]:
        return jacobi(runner, tokens, sampler, stopper, width=width)

    return decode


def jacobi(
    runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria, *, width: int
) -> Iterator[Step]:
    """Feeds the window, commits the guesses that were right and the one token behind them, moves on."""
    guesses = [tokens[-1]] * width
    reason = None
    while reason is None:
        tried = guesses[: most_drafts(runner, tokens, stopper)]
        step, choices = try_chain(runner, tokens, tried, ["window"] * len(tried), sampler, stopper)
        reason = step.reason
        if reason is None:
            refined = _refined(choices.choose, tokens, tried, len(step.tokens))
            guesses = [*refined, *guesses[len(tried) + 1 :], *tokens[-1:] * width][:width]
        # Its window is the line that it fed, which the trace has as a tree without branches as well.
        window = (step.trace.tokens,) if tried else ()
        yield replace(step, trace=replace(step.trace, window=window))


def _refined(choose: Choose, tokens: Sequence[int], tried: Sequence[int], done: int) -> list[int]:
    """What the rows behind those of the `done` newest tokens say; they read the first wrong guess as well."""
    path = [*tokens[:-1], *tried[done - 1 : done]]
    predicted = []
    for row in range(done, len(tried) + 1):
        predicted.append(choose(row, path))
        path += tried[row : row + 1]
    return predicted
