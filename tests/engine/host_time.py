"""Milliseconds of the host between a step's logits and the next launch, on the demo model.

    python -m tests.engine.host_time 32 64

A tape of the step takes the place of a CUDA graph (`simulated_graphs.py`), and its logits come when a sleep is over
(`replayed_sleep.py`). Medians over two replies, for each of these row budgets.
"""

import sys
from statistics import median

from app.engine.batched_sampling import make_batched_sampler
from app.engine.decoders import generate
from app.engine.loading import load
from app.engine.lookahead import ModelStatistics, make_lookahead
from app.engine.lookahead.factory import ReplyContext
from app.engine.lookahead.first_successors import ask_first_successors, no_successors
from app.engine.lookahead.native_drafter import best_drafter
from app.engine.rotary import Rotary
from app.engine.runner import BlockRunner
from app.engine.step_graphs import GraphSteps
from app.engine.stopping import StoppingCriteria
from app.messages import Decoding, ModelChoice, ModelFolder, Sampling
from app.settings import assets_dir
from tests.engine.path_attention import BY_PATHS
from tests.engine.replayed_sleep import Device, SleepingCapturer, read_from
from tests.engine.replies import Letters

QUESTIONS = ("Tell me about lookahead decoding.", "How do I find the largest files on my disk?")
LIMIT = 160


def main(budgets: list[int]) -> None:
    """Print a line for each."""
    loaded = load(ModelFolder(assets_dir() / "demo-model", "demo"), ModelChoice("demo"))
    eager = loaded.runner
    assert isinstance(eager, BlockRunner)
    first = ask_first_successors(eager, no_successors(loaded.vocabulary), 1, lambda *_: None)
    for rows in budgets:
        gaps: list[float] = []
        for question in QUESTIONS:
            prompt = loaded.tokenizer(question)["input_ids"]
            statistics = ModelStatistics(loaded.vocabulary, first=first, make_drafter=best_drafter())
            known = ReplyContext(statistics)
            gaps += _gaps(eager, tuple(prompt), rows, known)
        print(f"{rows} rows: {1000 * median(gaps):.2f} ms between {len(gaps)} steps")  # noqa: T201


def _gaps(eager: BlockRunner, prompt: tuple[int, ...], rows: int, known: ReplyContext) -> list[float]:
    device = Device(0.0005)
    steps = GraphSteps(eager.model, BY_PATHS, SleepingCapturer(device), eager.context)
    runner = BlockRunner(eager.model, eager.context, Rotary("fixed", eager.context), BY_PATHS, steps)
    runner.is_asynchronous = True
    sampler = read_from(device, make_batched_sampler(Sampling(), runner.best_tokens))
    stopper = StoppingCriteria(frozenset(), LIMIT, eager.context, (), Letters().decode)
    for _ in generate(runner, prompt, make_lookahead(Decoding(rows=rows), known), sampler, stopper):
        pass
    return device.gaps


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [32, 64])
