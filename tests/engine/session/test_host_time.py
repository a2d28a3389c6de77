"""Between two steps a device waits for drafting and launching alone: reports and what they teach run beside it."""

from statistics import median
from time import thread_time

from app.engine.decoders.lookahead_decoder import ReplyContext, make_lookahead
from app.engine.graphs.captured_steps import GraphSteps
from app.engine.lookahead.model_statistics import ModelStatistics
from app.engine.runner.model_config import rotary_of
from app.engine.runner.runner import BlockRunner
from app.engine.runner.step import Step
from app.engine.sampling.sampling import Sampler, make_sampler
from app.engine.session.reply_events import generate
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import Decoding, Sampling
from tests.engine.architectures import LLAMA
from tests.engine.path_attention import BY_PATHS
from tests.engine.replayed_sleep import Device, SleepingCapturer
from tests.engine.replies import Zoo, numbers

LIMIT = 48
SHOWING = 0.004
"""Seconds of the processor in which a step is shown."""


class Reply:
    """One reply of a tiny model on a device of its own time, recorded and replayed."""

    def __init__(self, zoo: Zoo, is_asynchronous: bool, rows: int) -> None:
        eager = zoo.runner(LLAMA)
        assert isinstance(eager, BlockRunner)
        self.device = Device(0.001)
        steps = GraphSteps(eager.model, BY_PATHS, SleepingCapturer(self.device), eager.context)
        rotary = rotary_of(eager.model.config.get_text_config(decoder=True), eager.context)
        self._runner = BlockRunner(eager.model, eager.context, rotary, BY_PATHS, steps)
        self._runner.is_asynchronous = is_asynchronous
        self.recorded = self._tokens(rows, self.device.recording(make_sampler(Sampling())))
        self.tokens = self._tokens(rows, self.device.replaying())

    def _tokens(self, rows: int, sampler: Sampler) -> list[int]:
        self._runner.forget()
        decoder = make_lookahead(Decoding(rows=rows), ReplyContext(ModelStatistics(self._runner.vocabulary)))
        stopper = StoppingCriteria(frozenset(), LIMIT, 1000)
        tokens: list[int] = []
        for item in generate(self._runner, numbers(20), decoder, sampler, stopper):
            if isinstance(item, Step):
                tokens += item.tokens
                show()
        return tokens

    @property
    def gap(self) -> float:
        """Milliseconds of the host between a step's end and the next launch."""
        return 1000 * median(self.device.gaps)


def show() -> None:
    """Takes as long as a slow page."""
    end = thread_time() + SHOWING
    while thread_time() < end:
        pass


def test_a_device_computes_the_next_step_while_one_is_shown(zoo: Zoo) -> None:
    in_turn, overlapped = (Reply(zoo, is_asynchronous, rows=32) for is_asynchronous in (False, True))
    assert overlapped.tokens == overlapped.recorded == in_turn.tokens == in_turn.recorded
    assert overlapped.gap < in_turn.gap - 1000 * SHOWING / 2
