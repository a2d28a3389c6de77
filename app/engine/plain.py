"""Plain decoding: one row, one token per step. The reference for every other decoder, and the fallback."""

from collections.abc import Iterator

from app.engine.block import chain_block
from app.engine.runner import ModelRunner
from app.engine.sampling import Sampler
from app.engine.step import Step
from app.engine.stopping import StoppingCriteria
from app.step_trace import StepTrace


def plain(
    runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
) -> Iterator[Step]:
    """Feeds the current token and commits what the model says behind it."""
    reason = None
    while reason is None:
        logits = runner.forward(chain_block(tokens[-1:], len(tokens) - 1, wanted=(0,)))
        choices = sampler(logits, positions=(len(tokens),))
        token = choices.choose(0, tokens)
        reason = stopper.cut((token,)).reason
        runner.commit((0,))
        trace = StepTrace((tokens[-1],), (-1,), ("model",), (int(choices.ids[0, 0]),), (0,))
        tokens.append(token)
        yield Step((token,), ("model",), rows=1, reason=reason, trace=trace)
