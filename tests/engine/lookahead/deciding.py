"""What the decoder's tests share: a planner that does as it is told, and replies step by step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app.engine.lookahead import lookahead
from app.engine.lookahead.planning import FixedSizes, Plan, Planner
from app.engine.lookahead.pool import Pool
from app.engine.lookahead.window_share import WindowShare
from app.engine.sampling import make_sampler
from app.engine.step import Step
from app.engine.stopping import Stopper
from app.messages import Decoding, Sampling, Split
from tests.engine.lookahead.scripted_runner import ScriptedRunner

START = [40, 4]
TEXT = [13, 40, 24, 73, 26, 79, 44, 36]
"""What triple_plus_one says behind START."""


def fixed(window: int = 0, ngram: int = 4, guesses: int = 8) -> FixedSizes:
    """Without a window what is drafted is the pool's affair alone."""
    return FixedSizes(Decoding("lookahead", window, ngram, guesses))


@dataclass
class Kept:
    """Wants a window and so many rows of each tree, and remembers what it was told."""

    rows: int
    first_columns: int = 0
    worth: float = 0.0
    ngram: int = 3
    told: list[tuple[int, int, bool]] = field(default_factory=list)
    rests: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.share = WindowShare(self.first_columns)

    def columns(self) -> int:
        return self.share.open()

    def plan(self, window: int) -> Plan:
        del window
        return Plan(100, 5, 0.25)

    def kept(self, reaches: Sequence[float], window: int) -> int:
        del window
        return min(self.rows, len(reaches))

    def rest(self) -> int:
        return self.rests.pop(0) if self.rests else 0

    def observe_rest(self, seconds: float) -> None:
        self.told.append((1, 1, seconds > 0))

    def price(self, reaches: Sequence[float], window: int) -> float:
        del reaches
        return self.worth if window else 0.0

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        self.told.append((rows, tokens, seconds > 0))

    def split(self, tree: int, window: int) -> Split:
        return Split(tree, window)


def ends(max_new_tokens: int = 1000, eos: Sequence[int] = (), stops: Sequence[str] = ()) -> Stopper:
    return Stopper(frozenset(eos), max_new_tokens, 1000, stops, decode=spelled)


def spelled(ids: list[int]) -> str:
    return "".join(f"<{token}>" for token in ids)


def decode(
    runner: ScriptedRunner,
    planner: Planner,
    pool: Pool,
    stopper: Stopper | None = None,
    tokens: Sequence[int] = START,
) -> Iterator[Step]:
    sampler = make_sampler(Sampling())
    return lookahead(runner, list(tokens), sampler, stopper or ends(), planner=planner, pool=pool)


def said(steps: Sequence[Step]) -> list[int]:
    return [token for step in steps for token in step.tokens]


def fed(runner: ScriptedRunner) -> list[list[int]]:
    """The tokens of each block."""
    return [list(block.tokens) for block in runner.blocks]
