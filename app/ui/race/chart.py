"""Draws the lanes of a race as bars at one moment of the race's clock. While a lane runs, finished lanes are shown
at the same elapsed time. After the last round, the moment is the end of the fastest lane's run of median speed."""

import json
from collections.abc import Iterator, Sequence
from typing import Literal

from markupsafe import Markup

from app.conversation.race.lane_comparison import fastest_plain, speed_up
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
from app.values.race import Curve, LaneResult, LaneRun, RacePlan, RaceResult, Spread, lane_name

LaneStatus = Literal["waiting", "running", "finished", "done"]
"""A lane is "finished" while other lanes run, and "done" once the race has its result."""
TEMPLATE = "race.html"
MOST_POINTS = 400
"""Maximum number of points of a lane's curve that are sent to the page."""
MOST_STEPS_SHOWN = 240
"""If the longest lane has more tokens, single steps would be too narrow to see and are not drawn."""
MARKS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2500, 5000, 10_000)
"""Possible distances, in tokens, between the marks below the lanes."""


def chart_html(state: RaceState, runs: Sequence[LaneRun]) -> Markup:
    """Return the lanes as bars against the clock; before the first race, an introduction. `runs` are the runs of
    the race's replies so far, in the order of the replies."""
    plan, result = state.plan, state.result
    if plan is None:
        return render_macro(TEMPLATE, "introduction")
    number = state.replies[-1].round if state.replies else 1
    shown = [lane.run for lane in result.lanes] if result else runs
    length = max([1, *(run.tokens for run in shown)])
    if not any(run.reason for run in shown):
        length = max(length, plan.options.max_new_tokens)
    if result:
        clock = result.leader.run.seconds
        lanes = [_finished_lane(lane, result, clock, length) for lane in result.lanes]
    else:
        clock = runs[-1].seconds if runs else 0.0
        lanes = list(_running_lanes(plan, runs, number, clock, length))
    distance = next((mark for mark in MARKS if length / mark <= 8), length)
    return render_macro(
        TEMPLATE,
        "chart",
        label="When the fastest lane finished" if result else f"Round {number} of {ROUNDS}",
        is_finished=result is not None,
        clock=clock_words(clock),
        length=length,
        lanes=lanes,
        marks=[(f"{tokens / length:.2%}", tokens) for tokens in range(0, length + 1, distance)],
    )


def _finished_lane(lane: LaneResult, result: RaceResult, clock: float, length: int) -> dict[str, object]:
    run = lane.run
    curve = [[round(at, 4), tokens] for at, tokens in thinned(run.curve)]
    return _bar(run.name, "done", run, lane.speed_up, clock, length, lane.speed.median) | {
        "is_winner": lane is result.winner,
        "badge": badge_words(lane),
        "is_identical": lane.is_identical,
        "difference": difference_words(lane, result),
        "fell_back": run.decoder != run.decoding.decoder,
        "curve": json.dumps(curve),
    }


def _running_lanes(
    plan: RacePlan, runs: Sequence[LaneRun], number: int, clock: float, length: int
) -> Iterator[dict[str, object]]:
    """Yield the lanes in round `number`. Speed-ups are relative to the plain runs that have finished so far."""
    columns: dict[Decoding, list[LaneRun]] = {lane: [] for lane in lanes_of(plan)}
    for run in runs:
        columns.setdefault(run.decoding, []).append(run)
    plain = fastest_plain(columns.values())
    for lane in lanes_of(plan):
        column = columns[lane]
        last = column[-1] if len(column) >= number else None
        is_running = last is runs[-1] and not last.reason if last else False
        status: LaneStatus = "waiting" if last is None else "running" if is_running else "finished"
        yield _bar(lane_name(lane), status, last, speed_up(column, plain), clock, length)


def _bar(
    name: str, status: LaneStatus, run: LaneRun | None, speed_up: Spread, clock: float, length: int,
    speed: float = 0.0,
) -> dict[str, object]:  # fmt: skip
    """Return the template's values for a lane; `speed` is the median of its rounds, or 0 until the race is done."""
    tokens, whole = (run.tokens_at(clock), run.tokens) if run else (0, 0)
    written = counted(tokens, "token") if run else ""
    return {
        "name": title(name),
        "status": status,
        "is_winner": False,
        "badge": status,
        "is_identical": None,
        "difference": "",
        "fell_back": False,
        "speed": times(speed_up.median),
        "range": between(speed_up) if speed_up.low < speed_up.high else "",
        "curve": "[]",  # the page replays finished races only
        "written": f"{tokens:,} of {whole:,} tokens" if run and run.reason else written,
        "spoken": f"{title(name)}: {tokens:,} of {length:,} tokens after {clock_words(clock)}",
        "done": f"{tokens / length:.2%}",
        "whole": f"{whole / length:.2%}",
        # The lines between the steps, unless there are too many to see.
        "steps": "".join(f"M{at} 0V1" for _, at in run.curve[:-1])
        if run and length <= MOST_STEPS_SHOWN
        else "",
        "facts": _facts(run, speed),
    }


def thinned(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """Return at most `most` points of a curve, always with the last point."""
    every = max(1, -(-len(curve) // most))
    return (*curve[::-1][::every][::-1],)


def _facts(run: LaneRun | None, speed: float) -> list[tuple[str, str]]:
    """Return a run's statistics as (name, value). If `speed` is not 0, it replaces the run's own speed."""
    names = ("tokens/s", "tokens per step", "positions per step", "first token", "time")
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
