"""What the pictures of a reply are drawn from: a fold over its events that stays small however long it gets.

Steps that wrote 1, 3 and 1 tokens, the second with two drafts of the window accepted:

    steps     (model)  (window window model)  (model)
    lengths   2 0 1 0 …                 steps that wrote 1, 2, 3, … tokens
    written   model 3, window 2         tokens by who proposed them
    means     1.0  2.0  1.67            tokens per step, over the newest MEAN_STEPS steps
              0.0  0.5  0.33            and the share of hits among them
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.messages import Event, Origin, Piece
from app.ui.live.origins import ORIGINS

STRIP_STEPS = 56
"""How many steps the strip shows."""
CHART_STEPS = 120
"""How many points a line of the chart has."""
MEAN_STEPS = 16
"""A point of the chart is the mean over so many steps, or over as many as there were."""
LONGEST = 8
"""The last column of lengths counts all steps that wrote so many tokens or more."""

_PLACES = {origin: place for place, origin in enumerate(ORIGINS)}

Step = tuple[Origin, ...]
"""A step by the origins of the tokens it wrote."""
Mean = tuple[float, float]
"""Tokens per step, and the share of hits."""


@dataclass(frozen=True, slots=True)
class Trail:
    """A reply's steps: the newest ones as they were, all of them counted. `written` is in the order of ORIGINS."""

    steps: tuple[Step, ...] = ()
    means: tuple[Mean, ...] = ()
    lengths: tuple[int, ...] = (0,) * LONGEST
    written: tuple[int, ...] = (0,) * len(ORIGINS)
    counted: int = 0


def extend(trail: Trail, events: Iterable[Event]) -> Trail:
    """The trail after these events. The prefill's first token belongs to no step and leaves nothing."""
    steps, means = list(trail.steps), list(trail.means)
    lengths, written, counted = list(trail.lengths), list(trail.written), trail.counted
    for event in events:
        if isinstance(event, Piece) and event.statistics.steps > counted:
            counted = event.statistics.steps
            steps.append(event.origins)
            means.append(_mean(steps[-MEAN_STEPS:]))
            lengths[min(len(event.origins), LONGEST) - 1] += 1
            for origin in event.origins:
                written[_PLACES[origin]] += 1
    return Trail(
        tuple(steps[-STRIP_STEPS:]), tuple(means[-CHART_STEPS:]), tuple(lengths), tuple(written), counted
    )


def _mean(steps: Sequence[Step]) -> Mean:
    # A drafted token that was accepted stands first: the model's own one ends a step.
    hits = sum(step[0] != "model" for step in steps)
    return sum(map(len, steps)) / len(steps), hits / len(steps)
