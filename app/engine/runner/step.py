"""The steps that a decoder yields, the order in which their parts run, and a reply's statistics.

in turn       launch 1, finish 1, report 1, show 1, launch 2, finish 2, ...
overlapped    launch 1, finish 1, launch 2, report 1, show 1, finish 2, ...    on a GPU

Launching a step starts its forward pass; finishing it commits its tokens; reporting it makes the `Step`; showing
it is what the caller does with the `Step`.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Protocol

from app.engine.runner.model_runner import ModelRunner
from app.engine.sampling.sampling import Sampler
from app.engine.text.stopping_criteria import StoppingCriteria
from app.values.messages import Origin, Split, Statistics, StopReason
from app.values.reply_statistics import NO_TRACE, StepTrace


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The token that was sampled after the prefill. In the statistics it counts as neither a token nor a step.

    `reused` is how many of the prompt's tokens were not read anew."""

    token: int
    reused: int
    reason: StopReason | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass: the committed tokens, the origin of each, and the number of rows of the pass.

    `is_covered` means that the step had drafts. A step with a `reason` is the reply's last step. `split` has
    the rows of the tree and of the window, and the step's cost."""

    tokens: tuple[int, ...]
    origins: tuple[Origin, ...]
    rows: int
    is_covered: bool = False
    pool_size: int = 0
    reason: StopReason | None = None
    split: Split = field(default_factory=Split)
    trace: StepTrace = NO_TRACE

    def __post_init__(self) -> None:
        if not self.tokens or len(self.tokens) != len(self.origins):
            raise ValueError(
                f"a step needs tokens and one origin for each of them, not {self.tokens} {self.origins}"
            )

    @property
    def is_hit(self) -> bool:
        """Whether at least one drafted token was accepted."""
        return any(origin != "model" for origin in self.origins)


class Decoder(Protocol):
    """Continues `tokens` until the stopper ends the reply; the last token is not in the runner's prefix yet."""

    def __call__(
        self, runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
    ) -> Iterator[Step]:
        """Yield one step per forward pass; the last one has a reason."""


class StatisticsMeter:
    """Adds up one reply's steps. The time to the first token is measured from the creation of the meter."""

    def __init__(self, prompt_tokens: int, cost_of: Callable[[int], float] = lambda _: 0.0) -> None:
        """Start to measure time. `cost_of` estimates a step's cost by its rows if the step states none."""
        self._cost_of = cost_of
        self._begin = perf_counter()
        self._decoding_since = self._begin
        self.statistics = Statistics(prompt_tokens=prompt_tokens)

    def first_token(self, first: FirstToken) -> Statistics:
        """Record the time to the first token, and start the decoding time."""
        self._decoding_since = perf_counter()
        self.statistics = replace(
            self.statistics,
            reused_tokens=first.reused,
            time_to_first_token=self._decoding_since - self._begin,
        )
        return self.statistics

    def add(self, step: Step) -> Statistics:
        before = self.statistics
        self.statistics = replace(
            before,
            tokens=before.tokens + len(step.tokens),
            steps=before.steps + 1,
            hits=before.hits + step.is_hit,
            covered=before.covered + step.is_covered,
            rows=before.rows + step.rows,
            pool_size=step.pool_size,
            split=step.split,
            seconds=perf_counter() - self._decoding_since,
            cost=before.cost + (step.split.cost or self._cost_of(step.rows)),
        )
        return self.statistics


StepInParts = Generator[StopReason | None, None, Step]
"""A step as a generator with two pauses. It yields None when its forward pass is launched. When its tokens are
committed it yields the reason why the reply ends, or None if the reply continues. It returns the finished step."""


def run_steps(begin: Callable[[], StepInParts], runner: ModelRunner) -> Iterator[Step]:
    """Yield the steps of a reply, each made by `begin`: overlapped if the runner is asynchronous, else in turn."""
    return overlapped(begin) if runner.is_asynchronous else in_turn(begin)


def in_turn(begin: Callable[[], StepInParts]) -> Iterator[Step]:
    """Yield each step before the next step begins."""
    reason = None
    while reason is None:
        step = launched(begin)
        reason = next(step)
        yield reported(step)


def overlapped(begin: Callable[[], StepInParts]) -> Iterator[Step]:
    """Yield each step while the device computes the next step."""
    step = launched(begin)
    while next(step) is None:
        try:
            following = launched(begin)
        except Exception:  # committed tokens are shown before the error ends the reply
            yield reported(step)
            raise
        yield reported(step)
        step = following
    yield reported(step)


def launched(begin: Callable[[], StepInParts]) -> StepInParts:
    """Make a step and run it up to its first pause."""
    step = begin()
    next(step)
    return step


def reported(step: StepInParts) -> Step:
    """Run a step from its second pause to its end; returns the finished step."""
    try:
        next(step)
    except StopIteration as end:
        done: Step = end.value
        return done
    raise AssertionError("a step pauses only twice")
