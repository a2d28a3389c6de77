"""From settings to a decoder: which planner pays for the rows, and which pool drafts."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from app.engine.block.step_profile import StepProfile
from app.engine.lookahead.decoder import lookahead
from app.engine.lookahead.draft_model_budget import Asking, NobodyAsked
from app.engine.lookahead.model_statistics import ModelStatistics
from app.engine.lookahead.planning import DraftPlanner, FixedSizesPlanner, RowBudgetPlanner
from app.engine.lookahead.tuner import ChainTuner, Tuner
from app.engine.lookahead.window_sizer import WindowSizer
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Decoder, Step
from app.engine.sampling.grammar import Constraint, unconstrained
from app.engine.sampling.sampling import Sampler
from app.engine.text.reply_text import StoppingCriteria
from app.values.messages import Decoding, Sampling

UNMEASURED_ROWS = 24
"""Auto's budget where no step was ever measured."""


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """What is known before a reply: the model's statistics and step times, how it draws, texts to quote from.

    `constraint` is what its grammar allows, `asking` the budget of the draft model."""

    statistics: ModelStatistics = field(default_factory=ModelStatistics)
    profile: StepProfile = field(default_factory=StepProfile)
    sampling: Sampling = field(default_factory=Sampling)
    documents: tuple[tuple[int, ...], ...] = ()
    prediction: tuple[int, ...] = ()
    constraint: Constraint = unconstrained
    asking: Asking = field(default_factory=NobodyAsked)


def make_lookahead(decoding: Decoding, known: ReplyContext | None = None) -> Decoder:
    """Lookahead with fixed sizes or, for auto, with rows as they pay."""
    known = known or ReplyContext()

    def decode(
        runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
    ) -> Iterator[Step]:
        pool = known.statistics.pool(
            tokens, known.sampling, known.documents, known.prediction, known.constraint, runner.max_branches
        )
        planner = _make_planner(decoding, known, runner, len(tokens))
        return lookahead(runner, tokens, sampler, stopper, planner=planner, pool=pool)

    return decode


def _make_planner(decoding: Decoding, known: ReplyContext, runner: ModelRunner, context: int) -> DraftPlanner:
    sizer, tune = known.statistics.sizer, Tuner
    known.asking.begin_reply()
    if runner.max_branches == 1:
        sizer, tune, decoding = WindowSizer(0), ChainTuner, replace(decoding, window=0)  # a window branches
    times = known.profile.times(runner.same_text_buckets)
    if decoding.decoder == "lookahead":
        return FixedSizesPlanner(decoding)
    if decoding.rows or not times:
        return RowBudgetPlanner(decoding.rows or UNMEASURED_ROWS, sizer)
    return tune(known.statistics.curve(times, runner.buckets), sizer, known.asking, context)
