"""How far each lane of a race is at one time of its clock.

While a lane runs, the lanes that have finished this round are shown at the same elapsed time. After the last round
all are shown at the time when the fastest lane of this machine finished, each by its run of median speed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.conversation.race.decoder_comparison import fastest_plain, speed_up
from app.conversation.race.race import RaceState
from app.conversation.race.race_setup import lanes_of
from app.conversation.race.remote_lane import remote_result
from app.values.messages import Decoding
from app.values.race import LaneResult, RaceResult, RemoteResult
from app.values.race_runs import Curve, LaneRun, RemoteRun, Run, Spread, lane_name

LaneStatus = Literal["waiting", "running", "finished", "failed", "done"]
"""A lane is "finished" while others run, and "done" once all have finished. A server can have "failed"."""
MOST_POINTS = 400
"""Points of a lane's curve that are sent to the page."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a lane is on the track: `share` is the part that it has filled, `whole` what it fills in the end."""

    status: LaneStatus = "waiting"
    tokens: int = 0
    share: float = 0.0
    whole: float = 0.0


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """A lane at this time.

    Its speed-up is relative to the plain runs that have finished by now, in this round and those before."""

    name: str
    place: Place
    run: LaneRun | None = None
    speed_up: Spread = field(default_factory=Spread)
    result: LaneResult | None = None
    is_winner: bool = False


@dataclass(frozen=True, slots=True)
class RemoteProgress:
    """The remote lane at this time. `result` is what its runs say so far."""

    name: str
    place: Place
    run: RemoteRun | None = None
    result: RemoteResult | None = None


@dataclass(frozen=True, slots=True)
class RaceProgress:
    """All lanes at one time: `length` of the track in tokens, `clock` in seconds; the `round` that runs, from 1."""

    lanes: tuple[LaneProgress, ...] = ()
    remote: tuple[RemoteProgress, ...] = ()
    length: int = 1
    clock: float = 0.0
    round: int = 0
    result: RaceResult | None = None


def race_progress(state: RaceState, runs: Sequence[LaneRun | RemoteRun]) -> RaceProgress:
    """The lanes of a race; `runs` are those of its replies so far, in their order."""
    plan = state.plan
    if plan is None:
        return RaceProgress()
    if state.result:
        return finished_race(state.result)
    columns: dict[Decoding, list[LaneRun]] = {lane: [] for lane in lanes_of(plan)}
    for run in runs:
        if isinstance(run, LaneRun):
            columns.setdefault(run.decoding, []).append(run)
    moment = _moment(state, runs)
    plain = fastest_plain(columns.values())
    lanes = tuple(_lane(lane_name(lane), columns[lane], plain, moment) for lane in lanes_of(plan))
    remote_runs = [run for run in runs if isinstance(run, RemoteRun)]
    remote = tuple(_remote(lane_name(model), remote_runs, moment) for model in plan.remote)
    return RaceProgress(lanes, remote, moment.length, moment.clock, moment.round)


def finished_race(result: RaceResult) -> RaceProgress:
    """All lanes at the time when the fastest one of this machine wrote its last token."""
    clock = result.leader.run.seconds
    runs: list[Run] = [*(lane.run for lane in result.lanes), *(remote.run for remote in result.remote)]
    length = max(1, *(run.tokens for run in runs))
    lanes = tuple(
        LaneProgress(
            lane.run.name,
            _place(lane.run, "done", clock, length),
            lane.run,
            lane.speed_up,
            lane,
            lane is result.winner,
        )
        for lane in result.lanes
    )
    remote = tuple(
        RemoteProgress(
            each.run.name,
            _place(each.run, "failed" if each.failure else "done", clock, length),
            each.run,
            each,
        )
        for each in result.remote
    )
    return RaceProgress(lanes, remote, length, clock, result=result)


@dataclass(frozen=True, slots=True)
class _Moment:
    """What every lane of a running race is compared with."""

    current: Run | None
    clock: float
    length: int
    round: int


def _moment(state: RaceState, runs: Sequence[Run]) -> _Moment:
    current = runs[-1] if runs else None
    length = max([run.tokens for run in runs], default=1)
    if state.plan and not any(run.reason for run in runs):
        length = max(length, state.plan.options.max_new_tokens)
    number = state.replies[-1].round if state.replies else 1
    return _Moment(current, current.seconds if current else 0.0, max(length, 1), number)


def _lane(name: str, column: Sequence[LaneRun], plain: Sequence[LaneRun], moment: _Moment) -> LaneProgress:
    speed = speed_up(column, plain)
    if len(column) < moment.round:
        return LaneProgress(name, Place(), speed_up=speed)
    run = column[-1]
    return LaneProgress(name, _place(run, _status(run, moment), moment.clock, moment.length), run, speed)


def _remote(name: str, column: Sequence[RemoteRun], moment: _Moment) -> RemoteProgress:
    if not column:
        return RemoteProgress(name, Place())
    result = remote_result(column)
    if not result.failure and len(column) < moment.round:
        return RemoteProgress(name, Place(), result=result)
    run = result.run if result.failure else column[-1]
    status = "failed" if result.failure else _status(run, moment)
    return RemoteProgress(name, _place(run, status, moment.clock, moment.length), run, result)


def _status(run: Run, moment: _Moment) -> LaneStatus:
    return "running" if run is moment.current and not run.reason else "finished"


def _place(run: Run, status: LaneStatus, clock: float, length: int) -> Place:
    tokens = run.tokens_at(clock)
    return Place(status, tokens, tokens / length, run.tokens / length)


def thinned(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """At most about `most` points of a curve, always with the last one."""
    every = max(1, -(-len(curve) // most))
    return (*curve[::-1][::every][::-1],)
