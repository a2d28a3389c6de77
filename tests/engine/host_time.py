"""Milliseconds of the host between a step's end and the next launch, on the demo model.

    python -m tests.engine.host_time 32 64

A tape of the step takes the place of a CUDA graph (`simulated_graphs.py`). A first pass records a reply's answers,
a second one replays them, each when a sleep is over (`replayed_sleep.py`). Medians over two replies, in turn for
these row budgets, greedy and sampled.
"""

import sys
from statistics import median

from app.engine.block.context_entries import Packed
from app.engine.decoders.lookahead_decoder import ReplyContext, make_lookahead
from app.engine.graphs.captured_steps import GraphSteps
from app.engine.loading.loading import load
from app.engine.lookahead.model_statistics import ModelStatistics, measure_first_successors, no_successors
from app.engine.lookahead.native_drafter import best_drafter
from app.engine.runner.model_config import Rotary
from app.engine.runner.runner import BlockRunner
from app.engine.runner.step import Step
from app.engine.sampling.sampling import Sampler, make_sampler
from app.engine.session.reply_events import generate
from app.engine.text.stopping_criteria import StoppingCriteria
from app.settings import assets_dir
from app.values.messages import Decoding, ModelChoice, ModelFolder, Sampling
from tests.engine.path_attention import BY_PATHS
from tests.engine.replayed_sleep import Device, SleepingCapturer

QUESTIONS = ("Tell me about lookahead decoding.", "How do I find the largest files on my disk?")
SAMPLINGS = {"greedy": Sampling(), "sampled": Sampling(temperature=0.7, top_p=0.9)}
LIMIT, ROUNDS = 160, 3


class ReplayedReplies:
    """The demo model on a device of its own time."""

    def __init__(self) -> None:
        loaded = load(ModelFolder(assets_dir() / "demo-model", "demo"), ModelChoice("demo"))
        eager = loaded.runner
        assert isinstance(eager, BlockRunner)
        self._first: Packed = measure_first_successors(
            eager, no_successors(loaded.vocabulary), 1, lambda *_: None
        )
        self._prompts = [tuple(loaded.tokenizer(question)["input_ids"]) for question in QUESTIONS]
        self._device = Device(0.0005)
        steps = GraphSteps(eager.model, BY_PATHS, SleepingCapturer(self._device), eager.context)
        self._runner = BlockRunner(
            eager.model, eager.context, Rotary("fixed", eager.context), BY_PATHS, steps
        )
        self._runner.is_asynchronous = True

    def gaps(self, rows: int, sampling: Sampling) -> list[float]:
        """Seconds that the device stood still before each step, in all replies."""
        self._device.gaps.clear()
        for prompt in self._prompts:
            recorder = self._device.recording(make_sampler(sampling, "cuda", self._runner.best_tokens))
            recorded = self._tokens(prompt, rows, sampling, recorder)
            assert self._tokens(prompt, rows, sampling, self._device.replaying()) == recorded
        return self._device.gaps

    def _tokens(
        self, prompt: tuple[int, ...], rows: int, sampling: Sampling, sampler: Sampler
    ) -> list[tuple[int, ...]]:
        """One reply, step by step, by a pool that knows nothing of the others."""
        self._runner.forget()
        statistics = ModelStatistics(self._runner.vocabulary, first=self._first, make_drafter=best_drafter())
        decoder = make_lookahead(Decoding(rows=rows), ReplyContext(statistics, sampling=sampling))
        stopper = StoppingCriteria(frozenset(), LIMIT, self._runner.context)
        written = generate(self._runner, prompt, decoder, sampler, stopper)
        return [item.tokens for item in written if isinstance(item, Step)]


def main(budgets: list[int]) -> None:
    """Print a line for each."""
    replies = ReplayedReplies()
    for turn in range(ROUNDS):
        for rows in budgets:
            for name, sampling in SAMPLINGS.items():
                gaps = replies.gaps(rows, sampling)
                milliseconds = 1000 * median(gaps)
                print(f"{turn}: {rows} rows, {name}: {milliseconds:.2f} ms between {len(gaps)} steps")


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [32, 64])
