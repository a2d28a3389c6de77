"""The lanes of a race as bars, at one time of its clock.

While a lane runs, the lanes that have finished this round are shown at the same elapsed time. After the last round
all are shown at the time when the fastest lane finished, each by its run of median speed.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from markupsafe import Markup

from app.conversation.race.decoder_comparison import fastest_plain, speed_up
from app.conversation.race.race import ROUNDS, RaceState, lanes_of
from app.ui.frame.templates import render_macro
from app.ui.race.formatting import (
    UNKNOWN,
    badge_words,
    between,
    clock_words,
    difference_words,
    rate,
    seconds,
    times,
    title,
)
from app.values.display_text import counted
from app.values.messages import Decoding
from app.values.race import Curve, LaneResult, LaneRun, RaceResult, Spread, lane_name

LaneStatus = Literal["waiting", "running", "finished", "done"]
"""A lane is "finished" while others run, and "done" once all have finished."""
TEMPLATE = "race.html"
MOST_POINTS = 400
"""Points of a lane's curve that are sent to the page."""
MOST_STEPS_SHOWN = 240
"""Tokens of the longest track on which single steps can be told apart."""
MARKS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2500, 5000, 10_000)
"""Possible distances of the marks below the lanes."""


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """A lane at this time. It has written `tokens` of its `run`, which is None before it starts.

    Its speed-up is relative to the plain runs that have finished by now, in this round and those before."""

    name: str
    status: LaneStatus = "waiting"
    tokens: int = 0
    run: LaneRun | None = None
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
    columns: dict[Decoding, list[LaneRun]] = {lane: [] for lane in lanes_of(state.plan)}
    for run in runs:
        columns.setdefault(run.decoding, []).append(run)
    length = max([1, *(run.tokens for run in runs)])
    if not any(run.reason for run in runs):
        length = max(length, state.plan.options.max_new_tokens)
    clock = runs[-1].seconds if runs else 0.0
    number = state.replies[-1].round if state.replies else 1
    plain = fastest_plain(columns.values())

    def lane(decoding: Decoding) -> LaneProgress:
        name, column = lane_name(decoding), columns[decoding]
        speed = speed_up(column, plain)
        if len(column) < number:
            return LaneProgress(name, speed_up=speed)
        run = column[-1]
        status: LaneStatus = "running" if run is runs[-1] and not run.reason else "finished"
        return LaneProgress(name, status, run.tokens_at(clock), run, speed)

    return RaceProgress(tuple(map(lane, lanes_of(state.plan))), length, clock, number)


def finished_race(result: RaceResult) -> RaceProgress:
    """All lanes at the time when the fastest one wrote its last token."""
    clock = result.leader.run.seconds
    lanes = tuple(
        LaneProgress(
            lane.run.name,
            "done",
            lane.run.tokens_at(clock),
            lane.run,
            lane.speed_up,
            lane,
            lane is result.winner,
        )
        for lane in result.lanes
    )
    length = max(1, *(lane.run.tokens for lane in result.lanes))
    return RaceProgress(lanes, length, clock, result=result)


def chart_html(progress: RaceProgress) -> Markup:
    """The lanes as bars against the clock; an introduction before the first race."""
    if not progress.lanes:
        return render_macro(TEMPLATE, "introduction")
    running = f"Round {progress.round} of {ROUNDS}"
    return render_macro(
        TEMPLATE,
        "chart",
        label="When the fastest lane finished" if progress.result else running,
        is_finished=progress.result is not None,
        clock=clock_words(progress.clock),
        length=progress.length,
        lanes=[_lane(lane, progress) for lane in progress.lanes],
        marks=list(_marks(progress.length)),
    )


def _lane(lane: LaneProgress, progress: RaceProgress) -> dict[str, object]:
    run, result, speed_up, length = lane.run, lane.result, lane.speed_up, progress.length
    tokens, written = lane.tokens, counted(lane.tokens, "token") if run else ""
    if run and run.reason:
        written = f"{tokens:,} of {run.tokens:,} tokens"
    difference = result.difference if result else None
    # Only a finished race can be replayed.
    curve = thinned(run.curve) if run and progress.result else ()
    return {
        "name": title(lane.name),
        "status": lane.status,
        "is_winner": lane.is_winner,
        "badge": badge_words(result) if result else lane.status,
        "is_identical": result.is_identical if result else None,
        "difference": difference_words(difference, progress.result.plan.options.sampling)
        if difference and progress.result
        else "",
        "fell_back": result is not None and result.run.decoder != result.run.decoding.decoder,
        "speed": times(speed_up.median),
        "range": between(speed_up) if speed_up.low < speed_up.high else "",
        "curve": json.dumps([[round(at, 4), tokens] for at, tokens in curve]),
        "written": written,
        "spoken": f"{title(lane.name)}: {tokens:,} of {length:,} tokens after {clock_words(progress.clock)}",
        "done": f"{tokens / length:.2%}",
        "whole": f"{run.tokens / length if run else 0:.2%}",
        "steps": _step_path(run, length),
        "facts": _facts(run, result.speed.median if result else 0.0),
    }


def thinned(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """At most about `most` points of a curve, always with the last one."""
    every = max(1, -(-len(curve) // most))
    return (*curve[::-1][::every][::-1],)


def _step_path(run: LaneRun | None, length: int) -> str:
    """Lines between the steps, as the path of an SVG."""
    if run is None or length > MOST_STEPS_SHOWN:
        return ""
    return "".join(f"M{tokens} 0V1" for _, tokens in run.curve[:-1])


def _facts(run: LaneRun | None, speed: float) -> list[tuple[str, str]]:
    """The numbers of a run, with the median `speed` of all rounds if it is known."""
    names = ("tokens/s", "tokens per step", "rows per step", "first token", "time")
    if run is None or not run.tokens:
        return [(name, UNKNOWN) for name in names]
    numbers = run.statistics
    values = (
        rate(speed or numbers.tokens_per_second),
        f"{numbers.tokens_per_step:.2f}" if numbers.steps else UNKNOWN,
        f"{numbers.rows_per_step:.1f}" if numbers.rows else UNKNOWN,
        seconds(numbers.time_to_first_token),
        seconds(run.seconds),
    )
    return list(zip(names, values, strict=True))


def _marks(length: int) -> Iterator[tuple[str, int]]:
    distance = next((mark for mark in MARKS if length / mark <= 8), length)
    for tokens in range(0, length + 1, distance):
        yield f"{tokens / length:.2%}", tokens
