"""A reply's steps for the live numbers and the X-ray, summed up event by event so that they stay small.

Example: three steps wrote 1, 3 and 1 tokens, and in the second one two drafts of the window were accepted:

    origins   (model)  (window window model)  (model)
    lengths   2 0 1 0 …                 steps that wrote 1, 2, 3, … tokens
    written   model 3, window 2         tokens by who proposed them
    means     1.0  2.0  1.67            tokens per step, over the newest MEAN_STEPS steps
              0.0  0.5  0.33            and the share of hits among them
    traced    the newest TRACED_STEPS steps with their draft trees
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from app.conversation import CachedTokenReader, StartedReply
from app.ui.live.tokens import ORIGINS
from app.values.messages import Event, Origin, Piece, Statistics
from app.values.reply_statistics import TRACED_STEPS, StepTrace

STRIP_STEPS = 56
"""Maximum number of steps that the strip of step bars shows."""
CHART_STEPS = 120
"""Maximum number of points of a line of the chart."""
MEAN_STEPS = 16
"""Each point of the chart is the mean of this many steps, or of all steps so far if these are fewer."""
LONGEST = 8
"""The last column of lengths counts all steps that wrote this many tokens or more."""

_INDEX = {origin: index for index, origin in enumerate(ORIGINS)}

StepOrigins = tuple[Origin, ...]
"""The origins of the tokens that a step wrote."""
Mean = tuple[float, float]
"""The mean tokens per step, and the share of steps with a hit."""


@dataclass(frozen=True, slots=True)
class TracedStep:
    """A step's draft tree and window, and the tokens that it wrote."""

    trace: StepTrace
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepHistory:
    """A reply's steps: the newest steps in full, and counts of all. `written` is in the order of ORIGINS."""

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
    """A reply whose steps a page follows."""

    def __init__(self, writing: StartedReply, newest_reader: Callable[[], CachedTokenReader]) -> None:
        """Take a function `newest_reader` that returns the tokenizer of the model that is loaded now."""
        self.writing = writing
        self.history = StepHistory()
        self._newest_reader = newest_reader
        self.reader = newest_reader()
        """The tokenizer of the model that writes the reply."""


def extend(history: StepHistory, events: Iterable[Event]) -> StepHistory:
    """Return the history with these events. The prefill's first token belongs to no step."""
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
            newest = origins[-MEAN_STEPS:]
            # A step with an accepted draft begins with it, because the model's own token comes last.
            hits = sum(step[0] != "model" for step in newest)
            means.append((sum(map(len, newest)) / len(newest), hits / len(newest)))
            lengths[min(len(piece.origins), LONGEST) - 1] += 1
            for origin in piece.origins:
                written[_INDEX[origin]] += 1
    return StepHistory(
        tuple(origins[-STRIP_STEPS:]), tuple(means[-CHART_STEPS:]), tuple(lengths), tuple(written),
        tuple(traced[-TRACED_STEPS:]), pieces[-1].statistics,
    )  # fmt: skip
