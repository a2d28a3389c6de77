"""What the live numbers and the X-ray know of a reply's steps: a fold over its events that stays small.

Steps that wrote 1, 3 and 1 tokens, the second with two drafts of the window accepted:

    origins   (model)  (window window model)  (model)
    lengths   2 0 1 0 …                 steps that wrote 1, 2, 3, … tokens
    written   model 3, window 2         tokens by who proposed them
    means     1.0  2.0  1.67            tokens per step, over the newest MEAN_STEPS steps
              0.0  0.5  0.33            and the share of hits among them
    traced    the newest TRACED_STEPS steps with their draft trees
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from app.conversation import CachedTokenReader, StartedReply
from app.ui.live.tokens import ORIGINS
from app.values.messages import Event, Origin, Piece, Statistics
from app.values.trace import TRACED_STEPS, StepTrace

STRIP_STEPS = 56
"""How many steps the strip shows."""
CHART_STEPS = 120
"""How many points a line of the chart has."""
MEAN_STEPS = 16
"""A point of the chart is the mean over so many steps, or over as many as there were."""
LONGEST = 8
"""The last column of lengths counts all steps that wrote so many tokens or more."""

_INDEX = {origin: index for index, origin in enumerate(ORIGINS)}

StepOrigins = tuple[Origin, ...]
"""The origins of the tokens that a step wrote."""
Mean = tuple[float, float]
"""Tokens per step, and the share of hits."""


@dataclass(frozen=True, slots=True)
class TracedStep:
    """A step's draft tree and window, and the tokens that it wrote."""

    trace: StepTrace
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepHistory:
    """A reply's steps: the newest ones as they were, and counts over all. `written` is in the order of ORIGINS."""

    origins: tuple[StepOrigins, ...] = ()
    means: tuple[Mean, ...] = ()
    lengths: tuple[int, ...] = (0,) * LONGEST
    written: tuple[int, ...] = (0,) * len(ORIGINS)
    traced: tuple[TracedStep, ...] = ()
    statistics: Statistics = field(default_factory=Statistics)

    @property
    def last(self) -> int:
        """The number of the newest step, counted from 1; 0 before the first."""
        return max(self.statistics.steps, len(self.traced))

    @property
    def first(self) -> int:
        """The number of the oldest step whose trace is kept."""
        return self.last - len(self.traced) + 1


class TracedReply:
    """A reply of which a page follows the steps."""

    def __init__(self, writing: StartedReply, newest_reader: Callable[[], CachedTokenReader]) -> None:
        """`newest_reader` returns the tokenizer of the model that is loaded now."""
        self.writing = writing
        self.history = StepHistory()
        self._newest_reader = newest_reader
        self.reader = newest_reader()
        """The tokenizer of the model that writes the reply."""


def extend(history: StepHistory, events: Iterable[Event]) -> StepHistory:
    """Return the history after these events. The prefill's first token belongs to no step and changes nothing."""
    pieces = [event for event in events if isinstance(event, Piece)]
    if not pieces:
        return history
    origins, means, traced = list(history.origins), list(history.means), list(history.traced)
    lengths, written, counted = list(history.lengths), list(history.written), history.statistics.steps
    for piece in pieces:
        if piece.trace.tokens:
            traced.append(TracedStep(piece.trace, piece.token_ids))
        if piece.statistics.steps > counted:
            counted = piece.statistics.steps
            origins.append(piece.origins)
            means.append(_mean(origins[-MEAN_STEPS:]))
            lengths[min(len(piece.origins), LONGEST) - 1] += 1
            for origin in piece.origins:
                written[_INDEX[origin]] += 1
    return StepHistory(
        tuple(origins[-STRIP_STEPS:]), tuple(means[-CHART_STEPS:]), tuple(lengths), tuple(written),
        tuple(traced[-TRACED_STEPS:]), pieces[-1].statistics,
    )  # fmt: skip


def _mean(steps: Sequence[StepOrigins]) -> Mean:
    # An accepted draft stands first: the model's own token ends a step.
    hits = sum(step[0] != "model" for step in steps)
    return sum(map(len, steps)) / len(steps), hits / len(steps)
