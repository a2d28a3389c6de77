"""Plain decoding: one row and one token per step. It is the reference for other decoders."""

from collections.abc import Iterator

from app.engine.block.block import chain_block
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Step, StepInParts, run_steps
from app.engine.sampling.sampling import Sampler
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.reply_statistics import StepTrace


def plain(
    runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
) -> Iterator[Step]:
    """Yield the steps of a reply: each feeds the last token and appends the token sampled after it."""

    def step() -> StepInParts:
        current = tokens[-1]
        logits = runner.forward(chain_block((current,), len(tokens) - 1, wanted=(0,)))
        yield None
        choices = sampler(logits, positions=(len(tokens),))
        token, predicted = choices.choose(0, tokens), int(choices.ids[0, 0])
        reason = stopper.cut((token,)).reason
        runner.commit((0,))
        tokens.append(token)
        yield reason
        trace = StepTrace((current,), (-1,), ("model",), (predicted,), (0,))
        return Step((token,), ("model",), rows=1, reason=reason, trace=trace)

    return run_steps(step, runner)
