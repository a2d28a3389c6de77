"""Replies that a model's head drafts alone: the pool is empty, and no text here repeats."""

from collections.abc import Sequence

from app.engine.drafters.mixed_tree import DraftModelSource
from app.engine.lookahead.drafter import PythonDrafter
from app.engine.lookahead.model_statistics import ModelStatistics
from app.engine.lookahead.row_planner import FixedSizesPlanner
from app.engine.runner.model_runner import ModelRunner
from app.values.messages import Decoding, Sampling
from tests.engine.heads import VOCABULARY
from tests.engine.replies import Reply, planned, write

DEPTH = 5


def drafted(
    runner: ModelRunner, source: DraftModelSource, prompt: Sequence[int], sampling: Sampling
) -> Reply:
    """A reply of 60 tokens. VOCABULARY is that of the model."""
    statistics = ModelStatistics(VOCABULARY, make_drafter=source.drafters(PythonDrafter))
    planner = FixedSizesPlanner(Decoding("lookahead", window=0, ngram=DEPTH + 1, guesses=3))
    decoder = planned(planner, statistics.pool(prompt, sampling, ()))
    return write(runner, prompt, decoder, sampling, limit=60)


def require_counted_on(reply: Reply, start: int) -> None:
    """Hold that the reply counts on from `start`, and that the head's guesses brought each of its steps tokens."""
    assert list(reply.tokens) == list(range(start, start + 60))
    runs = [len(step.tokens) for step in reply.steps[:-1]]
    assert min(runs) > 1
    assert max(runs) == DEPTH + 1
    origins = [origin for step in reply.steps for origin in step.origins[:-1]]
    assert origins.count("draft") > 0.8 * len(origins), "the pool has next to nothing to say"


def require_sampled(reply: Reply, start: int) -> None:
    """Hold that the reply does not simply count on, and that guesses brought each of its steps tokens."""
    assert list(reply.tokens) != list(range(start, start + 60)), "it is sampled indeed"
    assert min(len(step.tokens) for step in reply.steps[:-1]) > 1
