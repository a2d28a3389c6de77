"""What a decoder yields, and the running numbers made of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Protocol

from app.engine.runner.model_runner import ModelRunner
from app.engine.sampling.sampling import Sampler
from app.engine.text.reply_text import StoppingCriteria
from app.values.messages import Origin, Split, Statistics, StopReason
from app.values.trace import NO_TRACE, StepTrace


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The token that the prefill gave. It counts in neither tokens nor steps."""

    token: int
    reused: int
    reason: StopReason | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass: the committed tokens, who proposed each, and what the pass cost."""

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
            raise ValueError(f"a step commits tokens with an origin each, got {self.tokens} {self.origins}")

    @property
    def is_hit(self) -> bool:
        """Whether at least one drafted token was accepted."""
        return any(origin != "model" for origin in self.origins)


class Decoder(Protocol):
    """Continues `tokens`, whose last one is not in the runner's prefix yet, until the stopper ends it."""

    def __call__(
        self, runner: ModelRunner, tokens: list[int], sampler: Sampler, stopper: StoppingCriteria
    ) -> Iterator[Step]:
        """Yields one step per forward pass; the last one has a reason."""


class StatisticsMeter:
    """Adds up one reply's steps. Time runs from the meter's making."""

    def __init__(self, prompt_tokens: int) -> None:
        self._begin = perf_counter()
        self._decoding_since = self._begin
        self.statistics = Statistics(prompt_tokens=prompt_tokens)

    def first_token(self, first: FirstToken) -> Statistics:
        """The prefill is over: decoding time starts here."""
        self._decoding_since = perf_counter()
        self.statistics = replace(
            self.statistics,
            reused_tokens=first.reused,
            time_to_first_token=self._decoding_since - self._begin,
        )
        return self.statistics

    def add(self, step: Step) -> Statistics:
        """The numbers with this step in them."""
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
        )
        return self.statistics
