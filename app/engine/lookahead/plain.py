"""Plain decoding: one row, one token per step. The reference for every other decoder, and the fallback."""

from collections.abc import Iterator

from torch import Tensor

from app.engine.block.block import chain_block
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Step
from app.engine.runner.step_order import run_steps
from app.engine.sampling.sampling import Sampler
from app.engine.text.reply_text import StoppingCriteria
from app.values.messages import StopReason
from app.values.trace import StepTrace


def plain(
    runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
) -> Iterator[Step]:
    """Feeds the current token and commits what the model says behind it."""
    return run_steps(_PlainSteps(runner, tokens, sampler, stopper), runner)


class _PlainSteps:
    """One reply's."""

    def __init__(
        self, runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
    ) -> None:
        self._runner = runner
        self._tokens = tokens
        self._sampler = sampler
        self._stopper = stopper
        self._logits: Tensor
        self._finished: tuple[int, int, int, StopReason | None]

    def launch(self) -> None:
        """One row."""
        tokens = self._tokens
        self._logits = self._runner.forward(chain_block(tokens[-1:], len(tokens) - 1, wanted=(0,)))

    def finish(self) -> StopReason | None:
        """One token."""
        tokens = self._tokens
        choices = self._sampler(self._logits, positions=(len(tokens),))
        token = choices.choose(0, tokens)
        reason = self._stopper.cut((token,)).reason
        self._runner.commit((0,))
        self._finished = tokens[-1], int(choices.ids[0, 0]), token, reason
        tokens.append(token)
        return reason

    def report(self) -> Step:
        """With the trace of its row."""
        current, predicted, token, reason = self._finished
        trace = StepTrace((current,), (-1,), ("model",), (predicted,), (0,))
        return Step((token,), ("model",), rows=1, reason=reason, trace=trace)
