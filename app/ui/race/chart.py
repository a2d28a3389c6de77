"""The lanes of a race as bars against the clock."""

import json
from collections.abc import Iterator

from markupsafe import Markup

from app.conversation.race.race import ROUNDS
from app.ui.frame.templates import render_macro
from app.ui.race.formatting import (
    UNKNOWN,
    badge_words,
    between,
    between_rates,
    clock,
    difference_words,
    rate,
    seconds,
    times,
    title,
)
from app.ui.race.progress import LaneProgress, Place, RaceProgress, RemoteProgress, thinned
from app.ui.race.remote_lane import MAY_DIFFER, unit_of
from app.values.display_text import counted
from app.values.race import RaceResult
from app.values.race_runs import Run, Spread

TEMPLATE = "race.html"
MOST_STEPS_SHOWN = 240
"""Tokens of the longest track on which single steps can be told apart."""
UNMEASURED = Spread()
MARKS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2500, 5000, 10_000)
"""Possible distances of the marks below the lanes."""


def chart_html(progress: RaceProgress) -> Markup:
    """The lanes as bars against the clock; an introduction before the first race."""
    if not progress.lanes:
        return render_macro(TEMPLATE, "introduction")
    return render_macro(
        TEMPLATE,
        "chart",
        label=_clock_label(progress),
        is_finished=progress.result is not None,
        clock=clock(progress.clock),
        length=progress.length,
        lanes=[_lane(lane, progress) for lane in progress.lanes]
        + [_remote_lane(lane, progress) for lane in progress.remote],
        marks=list(_marks(progress.length)),
    )


def _clock_label(progress: RaceProgress) -> str:
    if progress.result is None:
        return f"Round {progress.round} of {ROUNDS}"
    return f"When the fastest {'local ' if progress.remote else ''}lane finished"


def _lane(lane: LaneProgress, progress: RaceProgress) -> dict[str, object]:
    result, speed_up = lane.result, lane.speed_up
    return _track(lane.name, lane.place, lane.run, progress) | {
        "is_winner": lane.is_winner,
        "badge": badge_words(result) if result else _status_words(lane.place),
        "is_identical": result.is_identical if result else None,
        "difference": _difference(lane, progress.result),
        "fell_back": result is not None and result.run.decoder != result.run.decoding.decoder,
        "speed": times(speed_up.median),
        "range": between(speed_up) if speed_up.low < speed_up.high else "",
        "facts": _facts(lane.run, result.speed if result else UNMEASURED),
    }


def _remote_lane(lane: RemoteProgress, progress: RaceProgress) -> dict[str, object]:
    track, result = _track(lane.name, lane.place, lane.run, progress), lane.result
    if result is None:
        return track | {"badge": _status_words(lane.place), "speed": UNKNOWN, "facts": _facts(lane.run)}
    speed = result.speed
    measured = (speed, result.wait) if progress.result else ()
    return track | {
        "badge": MAY_DIFFER if lane.place.status == "done" else _status_words(lane.place),
        "problem": result.failure,
        "speed": rate(speed.median),
        "unit": f"{unit_of(result.run)}s/s" if speed.median else "",
        "range": between_rates(speed) if speed.low < speed.high else "",
        "facts": _facts(lane.run, *measured),
    }


def _track(name: str, place: Place, run: Run | None, progress: RaceProgress) -> dict[str, object]:
    """What all lanes have: the name, and the bar with what is told of it."""
    # Only for the replay, which a running race does not have.
    curve = thinned(run.curve) if run and progress.result else ()
    unit = unit_of(run) if run else "token"
    whole = f"{place.tokens:,} of {run.tokens:,} {unit}s" if run and run.reason else ""
    return {
        "name": title(name),
        "status": place.status,
        "is_winner": False,
        "badge": "",
        "is_identical": None,
        "difference": "",
        "fell_back": False,
        "range": "",
        "problem": "",
        "unit": "",
        "curve": json.dumps([[round(at, 4), tokens] for at, tokens in curve]),
        "counted": f"{unit}s",
        "written": whole or (counted(place.tokens, unit) if run else ""),
        "spoken": f"{title(name)}: {place.tokens:,} of {progress.length:,} {unit}s after {clock(progress.clock)}",
        "done": f"{place.share:.2%}",
        "whole": f"{place.whole:.2%}",
        "steps": _step_path(run, progress.length),
    }


def _status_words(place: Place) -> str:
    return "" if place.status == "done" else place.status


def _difference(lane: LaneProgress, result: RaceResult | None) -> str:
    difference = lane.result.difference if lane.result else None
    return difference_words(difference, result.plan.options.sampling) if difference and result else ""


def _step_path(run: Run | None, length: int) -> str:
    """Lines between the steps, as the path of an SVG."""
    if run is None or length > MOST_STEPS_SHOWN:
        return ""
    return "".join(f"M{tokens} 0V1" for _, tokens in run.curve[:-1])


def _facts(run: Run | None, speed: Spread = UNMEASURED, wait: Spread = UNMEASURED) -> list[tuple[str, str]]:
    """The numbers of a run; of its speed and its wait for the first token the medians, where they are known."""
    names = (
        f"{unit_of(run) if run else 'token'}s/s",
        "tokens per step",
        "rows per step",
        "first token",
        "time",
    )
    if run is None or not run.tokens:
        return [(name, UNKNOWN) for name in names]
    numbers = run.statistics
    values = (
        rate(speed.median or numbers.tokens_per_second),
        f"{numbers.tokens_per_step:.2f}" if numbers.steps else UNKNOWN,
        f"{numbers.rows_per_step:.1f}" if numbers.rows else UNKNOWN,
        seconds(wait.median or numbers.time_to_first_token),
        seconds(run.seconds),
    )
    return list(zip(names, values, strict=True))


def _marks(length: int) -> Iterator[tuple[str, int]]:
    distance = next((mark for mark in MARKS if length / mark <= 8), length)
    for tokens in range(0, length + 1, distance):
        yield f"{tokens / length:.2%}", tokens
