"""What the decoder's tests share: a planner that does as it is told, and replies step by step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app.engine.decoders.lookahead_decoder import lookahead
from app.engine.lookahead.jacobi_window import JacobiWindow, WindowSizer
from app.engine.lookahead.ngram_pool import Pool
from app.engine.lookahead.row_planner import (
    PLAIN_STEP,
    DraftedStep,
    DraftPlan,
    DraftPlanner,
    FixedSizesPlanner,
)
from app.engine.runner.step import Step
from app.engine.sampling.sampling import make_sampler
from app.engine.text.stopping_criteria import ReplyText, StoppingCriteria
from app.values.messages import Decoding, Sampling, Split
from tests.engine.lookahead.scripted_runner import ScriptedRunner

START = [40, 4]
TEXT = [13, 40, 24, 73, 26, 79, 44, 36]
"""What triple_plus_one says behind START."""


def fixed(window: int = 0, ngram: int = 4, guesses: int = 8) -> FixedSizesPlanner:
    """Without a window what is drafted is the pool's affair alone."""
    return FixedSizesPlanner(Decoding("lookahead", window, ngram, guesses))


@dataclass
class Kept:
    """Wants a window and so many rows of each tree, and remembers what it observed.

    `rests` are numbers of plain steps before each draft."""

    rows: int
    columns: int = 0
    worth: float = 0.0
    ngram: int = 3
    observed: list[tuple[int, int, bool]] = field(default_factory=list)
    rests: list[int] = field(default_factory=list)
    _plain_left: int | None = None

    def __post_init__(self) -> None:
        self.sizer = WindowSizer(self.columns)

    def plan(self, window_rows: int) -> DraftPlan:
        del window_rows
        if self._plain_left is None:
            self._plain_left = self.rests.pop(0) if self.rests else 0
        if self._plain_left:
            self._plain_left -= 1
            return PLAIN_STEP
        self._plain_left = None
        return DraftPlan(100, 5, 0.25)

    def kept(self, reaches: Sequence[float], window_rows: int) -> int:
        del window_rows
        return min(self.rows, len(reaches))

    def observe_plain(self, seconds: float, rows: int = 1) -> Split:
        self.observed.append((rows, 1, seconds > 0))
        return Split()

    def observe(self, step: DraftedStep) -> Split:
        self.observed.append((step.rows, step.tokens, step.seconds > 0))
        split = Split(len(step.reaches), step.window.size)
        self.sizer.settle(step.window, self.worth if step.window.size else 0.0, step.from_window)
        return split


def drafted(
    rows: int,
    tokens: int = 1,
    seconds: float = 0.01,
    *,
    reaches: Sequence[float] = (1.0,),
    window: JacobiWindow | None = None,
    from_window: int = 0,
) -> DraftedStep:
    """A step as planners observe it."""
    return DraftedStep(reaches, window or JacobiWindow(0, 3, ()), rows, tokens, from_window, seconds)


def ends(max_new_tokens: int = 1000, eos: Sequence[int] = (), stops: Sequence[str] = ()) -> StoppingCriteria:
    return StoppingCriteria(frozenset(eos), max_new_tokens, 1000, ReplyText(spelled, stops))


def spelled(ids: list[int]) -> str:
    return "".join(f"<{token}>" for token in ids)


def decode(
    runner: ScriptedRunner,
    planner: DraftPlanner,
    pool: Pool,
    stopper: StoppingCriteria | None = None,
    tokens: Sequence[int] = START,
) -> Iterator[Step]:
    sampler = make_sampler(Sampling())
    return lookahead(runner, list(tokens), sampler, stopper or ends(), planner=planner, pool=pool)


def said(steps: Sequence[Step]) -> list[int]:
    return [token for step in steps for token in step.tokens]


def fed(runner: ScriptedRunner) -> list[list[int]]:
    """The tokens of each block."""
    return [list(block.tokens) for block in runner.blocks]
