"""How far each lane of a race is at one time of its clock.

While a lane runs, the lanes that have finished this round are shown at the same elapsed time. After the last round
all are shown at the time when the fastest lane finished, each by its run of median speed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.conversation.decoder_comparison import fastest_plain, speed_up
from app.conversation.race import RaceState
from app.conversation.race_setup import lanes_of
from app.messages import Decoding
from app.race_messages import Curve, LaneResult, LaneRun, RaceResult, Spread, lane_name

LaneStatus = Literal["waiting", "running", "finished", "done"]
"""A lane is "finished" while others run, and "done" once all have finished."""
MOST_POINTS = 400
"""Points of a lane's curve that are sent to the page."""


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """A lane at this time. `share` is the part of the track that it has filled, `whole` what it fills in the end.

    Its speed-up is relative to the plain runs that have finished by now, in this round and those before."""

    name: str
    status: LaneStatus
    run: LaneRun | None = None
    tokens: int = 0
    share: float = 0.0
    whole: float = 0.0
    speed_up: Spread = field(default_factory=Spread)
    result: LaneResult | None = None
    is_winner: bool = False


@dataclass(frozen=True, slots=True)
class RaceProgress:
    """All lanes at one time: `length` of the track in tokens, `clock` in seconds; the `round` that runs, from 1."""

    lanes: tuple[LaneProgress, ...] = ()
    length: int = 1
    clock: float = 0.0
    round: int = 0
    result: RaceResult | None = None


def race_progress(state: RaceState, runs: Sequence[LaneRun]) -> RaceProgress:
    """The lanes of a race; `runs` are those of its replies so far, in their order."""
    if state.plan is None:
        return RaceProgress()
    if state.result:
        return finished_race(state.result)
    current = runs[-1] if runs else None
    clock = current.seconds if current else 0.0
    length = max([run.tokens for run in runs], default=1)
    if not any(run.reason for run in runs):
        length = max(length, state.plan.options.max_new_tokens)
    number = state.replies[-1].round if state.replies else 1
    columns: dict[Decoding, list[LaneRun]] = {lane: [] for lane in lanes_of(state.plan)}
    for run in runs:
        columns.setdefault(run.decoding, []).append(run)
    moment = _Moment(current, clock, max(length, 1), number, fastest_plain(columns.values()))
    lanes = tuple(_lane(lane_name(lane), columns[lane], moment) for lane in lanes_of(state.plan))
    return RaceProgress(lanes, moment.length, clock, number)


def finished_race(result: RaceResult) -> RaceProgress:
    """All lanes at the time when the fastest one wrote its last token."""
    clock = result.leader.run.seconds
    length = max(1, *(lane.run.tokens for lane in result.lanes))
    lanes = tuple(
        LaneProgress(
            lane.run.name,
            "done",
            lane.run,
            tokens := lane.run.tokens_at(clock),
            tokens / length,
            lane.run.tokens / length,
            lane.speed_up,
            lane,
            lane is result.winner,
        )
        for lane in result.lanes
    )
    return RaceProgress(lanes, length, clock, result=result)


@dataclass(frozen=True, slots=True)
class _Moment:
    """What every lane of a running race is compared with."""

    current: LaneRun | None
    clock: float
    length: int
    round: int
    plain: Sequence[LaneRun]


def _lane(name: str, column: Sequence[LaneRun], moment: _Moment) -> LaneProgress:
    speed = speed_up(column, moment.plain)
    if len(column) < moment.round:
        return LaneProgress(name, "waiting", speed_up=speed)
    run, length = column[-1], moment.length
    tokens = run.tokens_at(moment.clock)
    status: LaneStatus = "running" if run is moment.current and not run.reason else "finished"
    return LaneProgress(name, status, run, tokens, tokens / length, run.tokens / length, speed)


def thinned(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """At most about `most` points of a curve, always with the last one."""
    every = max(1, -(-len(curve) // most))
    return (*curve[::-1][::every][::-1],)
