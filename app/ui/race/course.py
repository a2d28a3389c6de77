"""Where every lane stands at one moment of a race's clock: what the board and the picture are drawn from.

While a lane runs, those that ran before it are ghosts at the same clock. Once all have run it is the photo finish:
the moment when the winner wrote its last token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.conversation.decoder_comparison import fastest_plain, speed_up
from app.conversation.race import RaceState
from app.conversation.race_setup import lanes_of
from app.race_messages import Curve, LaneResult, LaneRun, RaceResult, lane_name

Going = Literal["waiting", "running", "ghost", "done"]
MOST_POINTS = 400
"""Points of a lane's curve that are sent to the page."""


@dataclass(frozen=True, slots=True)
class Runner:
    """A lane at this moment; `share` and `whole` are parts of the course: what it has written, and will have.

    Its speed-up is over the plains that have run by now."""

    name: str
    going: Going
    run: LaneRun | None = None
    tokens: int = 0
    share: float = 0.0
    whole: float = 0.0
    speed_up: float = 0.0
    result: LaneResult | None = None
    is_winner: bool = False


@dataclass(frozen=True, slots=True)
class Course:
    """All lanes at one moment: `length` in tokens, `clock` in seconds."""

    runners: tuple[Runner, ...] = ()
    length: int = 1
    clock: float = 0.0
    result: RaceResult | None = None


def course(state: RaceState, runs: Sequence[LaneRun]) -> Course:
    """The lanes of a race as it stands; `runs` are its heats' in their order."""
    if state.plan is None:
        return Course()
    if state.result:
        return photo_finish(state.result)
    current = runs[-1] if runs else None
    clock = current.seconds if current else 0.0
    ended = [run for run in runs if run.reason]
    length = max([run.tokens for run in runs], default=1)
    if not ended:
        length = max(length, state.plan.options.max_new_tokens)
    by_lane = {run.decoding: run for run in runs}
    moment = _Moment(current, clock, max(length, 1), fastest_plain(runs))
    runners = tuple(_runner(lane_name(lane), by_lane.get(lane), moment) for lane in lanes_of(state.plan))
    return Course(runners, moment.length, clock)


def photo_finish(result: RaceResult) -> Course:
    """A race that was run: where everybody was when the winner had written its last token."""
    winner = result.winner
    clock = winner.run.seconds
    length = max(1, *(lane.run.tokens for lane in result.lanes))
    runners = tuple(
        Runner(
            lane.run.name,
            "done",
            lane.run,
            tokens := lane.run.tokens_at(clock),
            tokens / length,
            lane.run.tokens / length,
            lane.speed_up,
            lane,
            lane is winner,
        )
        for lane in result.lanes
    )
    return Course(runners, length, clock, result)


@dataclass(frozen=True, slots=True)
class _Moment:
    """What all lanes of a running race are seen against."""

    current: LaneRun | None
    clock: float
    length: int
    plain: LaneRun | None


def _runner(name: str, run: LaneRun | None, moment: _Moment) -> Runner:
    if run is None:
        return Runner(name, "waiting")
    tokens, length = run.tokens_at(moment.clock), moment.length
    going: Going = "running" if run is moment.current and not run.reason else "ghost"
    speed = speed_up(run, moment.plain)
    return Runner(name, going, run, tokens, tokens / length, run.tokens / length, speed)


def thinned(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """At most about so many points of a curve, its last one always among them."""
    every = max(1, -(-len(curve) // most))
    return (*curve[::-1][::every][::-1],)
