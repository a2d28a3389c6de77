"""From settings to a decoder: which planner pays for the rows, and which pool drafts."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.engine.lookahead.decoder import lookahead
from app.engine.lookahead.experience import Experience
from app.engine.lookahead.planning import FixedSizes, Planner, RowBudget
from app.engine.lookahead.tuner import Tuner
from app.engine.runner import Runner
from app.engine.sampling import Sampler
from app.engine.step import Decoder, Step
from app.engine.step_times import StepProfile
from app.engine.stopping import Stopper
from app.messages import Decoding, Sampling

UNMEASURED_ROWS = 24
"""Auto's budget where no step was ever measured."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known before a reply: the model's experience and step times, how it draws, texts to quote from."""

    experience: Experience = field(default_factory=Experience)
    profile: StepProfile = field(default_factory=StepProfile)
    sampling: Sampling = field(default_factory=Sampling)
    documents: tuple[tuple[int, ...], ...] = ()


def make_lookahead(decoding: Decoding, known: Known | None = None) -> Decoder:
    """Lookahead with fixed sizes or, for auto, with rows as they pay."""
    known = known or Known()

    def decode(runner: Runner, tokens: list[int], sampler: Sampler, stopper: Stopper) -> Iterator[Step]:
        pool = known.experience.pool(tokens, known.sampling, known.documents)
        planner = _make_planner(decoding, known, runner)
        return lookahead(runner, tokens, sampler, stopper, planner=planner, pool=pool)

    return decode


def _make_planner(decoding: Decoding, known: Known, runner: Runner) -> Planner:
    share = known.experience.share
    times = known.profile.times(runner.widths)
    if decoding.decoder == "lookahead":
        return FixedSizes(decoding)
    if decoding.rows or not times:
        return RowBudget(decoding.rows or UNMEASURED_ROWS, share)
    experience = known.experience
    patience = experience.patience(known.sampling.temperature)
    return Tuner(experience.curve(times, runner.padding), share, patience)
