"""Between two steps a device waits for drafting and launching alone: reports and what they teach run beside it."""

from statistics import median
from time import thread_time

from app.engine.decoders import generate
from app.engine.lookahead import ModelStatistics, make_lookahead
from app.engine.lookahead.factory import ReplyContext
from app.engine.rotary import rotary_of
from app.engine.runner import BlockRunner
from app.engine.sampling import make_sampler
from app.engine.step import Step
from app.engine.step_graphs import GraphSteps
from app.engine.stopping import StoppingCriteria
from app.messages import Decoding, Sampling
from tests.engine.architectures import LLAMA
from tests.engine.path_attention import BY_PATHS
from tests.engine.replayed_sleep import Device, SleepingCapturer, read_from
from tests.engine.replies import Letters, Zoo, numbers

LIMIT = 48
SHOWING = 0.004
"""Seconds of the processor in which a step is shown."""


class Reply:
    """One reply of a tiny model on a device of its own time."""

    def __init__(self, zoo: Zoo, is_asynchronous: bool, rows: int) -> None:
        eager = zoo.runner(LLAMA)
        assert isinstance(eager, BlockRunner)
        self.device = Device(0.001)
        steps = GraphSteps(eager.model, BY_PATHS, SleepingCapturer(self.device), eager.context)
        rotary = rotary_of(eager.model.config.get_text_config(decoder=True), eager.context)
        runner = BlockRunner(eager.model, eager.context, rotary, BY_PATHS, steps)
        runner.is_asynchronous = is_asynchronous
        decoder = make_lookahead(Decoding(rows=rows), ReplyContext(ModelStatistics(eager.vocabulary)))
        stopper = StoppingCriteria(frozenset(), LIMIT, 1000, (), Letters().decode)
        sampler = read_from(self.device, make_sampler(Sampling()))
        self.tokens: list[int] = []
        for item in generate(runner, numbers(20), decoder, sampler, stopper):
            if isinstance(item, Step):
                self.tokens += item.tokens
                show()

    @property
    def gap(self) -> float:
        """Milliseconds of the host between a step's logits and the next launch."""
        return 1000 * median(self.device.gaps)


def show() -> None:
    """Takes as long as a slow page."""
    end = thread_time() + SHOWING
    while thread_time() < end:
        pass


def test_a_device_computes_the_next_step_while_one_is_shown(zoo: Zoo) -> None:
    in_turn, overlapped = (Reply(zoo, is_asynchronous, rows=32) for is_asynchronous in (False, True))
    assert overlapped.tokens == in_turn.tokens
    assert overlapped.gap < in_turn.gap - 1000 * SHOWING / 2
