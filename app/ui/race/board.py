"""The race as HTML: a lane per decoder, a clock, and the numbers. A segment of a bar is one forward pass."""

import json
from html import escape

from app.conversation.race import RaceState
from app.conversation.race_setup import HALF
from app.race_messages import LaneRun, RaceResult
from app.ui.race.course import Course, Runner, thinned
from app.ui.race.words import UNKNOWN, badge_words, clock, difference_words, rate, seconds, times, title

MOST_STRIDES = 240
"""Tokens of a course up to which forward passes can be told apart."""
INTRODUCTION = (
    '<section class="board empty" aria-label="The race"><p>One prompt, two or three decoders, one after the other '
    "on this machine.</p><p>Each lane fills with the tokens it writes. Plain decoding takes one step a token; the "
    "others try to take several tokens a step, without changing a word. Temperature, seed and same text are those "
    "of the chat.</p></section>"
)
ROUGH = 1.0
"""Seconds of plain decoding below which a race's numbers say little."""
MARKS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2500, 5000, 10_000)
"""Possible distances between the marks under the lanes."""


def board_html(course: Course) -> str:
    """The board; before the first race what a race is."""
    if not course.runners:
        return INTRODUCTION
    lanes = "".join(_lane(runner, course) for runner in course.runners)
    photo = "Photo finish" if course.result else "Clock"
    replay = (
        '<button type="button" class="act" data-replay aria-label="Replay the race">Replay</button>'
        if course.result
        else ""
    )
    return (
        f'<section class="board" aria-label="The race"><header><span class="photo">{photo}</span>'
        f'<b class="clock">{clock(course.clock)}</b>{replay}</header>'
        f'<ol class="lanes">{lanes}</ol>{_scale(course)}</section>'
    )


def status_html(state: RaceState) -> str:
    """What is going on, in a sentence; how it ended once it has."""
    if words := status_words(state):
        kind = "problem" if state.phase == "failed" else "note"
        busy = "<i></i>" if state.is_running else ""
        return f'<p class="{kind}" role="status">{busy}{escape(words)}</p>'
    return ""


def status_words(state: RaceState) -> str:
    """The sentence alone."""
    match state.phase:
        case "idle":
            return ""
        case "warming":
            return "Warming up: each decoder writes a few tokens first, so that nobody pays for what is made once."
        case "racing":
            return _running_words(state)
        case "judging":
            return "Comparing the texts."
        case "done" if state.result:
            return " ".join(filter(None, (verdict_words(state.result), state.note)))
    return state.note


def _running_words(state: RaceState) -> str:
    lane = state.replies[-1]
    if not lane.is_reference:
        lanes = sum(not each.is_reference for each in state.replies)
        return f"Lane {lanes} is running; those before it are shown at the same clock."
    rows = "in the lanes' width" if lane.decoding.same_text else "one row a step"
    return f"First, beside the race: plain, {rows}, as a measure."


def verdict_words(result: RaceResult) -> str:
    """Who was fastest, and whether they wrote the same."""
    return f"{fastest_words(result)} {same_words(result)}"


def fastest_words(result: RaceResult) -> str:
    """Who was fastest, and by how much."""
    winner = result.winner
    if not winner.speed_up:
        return "Too short a reply to measure."
    if winner.run.decoder == "plain":
        return "Plain was fastest here."
    return f"{title(winner.run.name)} was fastest: {times(winner.speed_up)} plain's speed."


def same_words(result: RaceResult) -> str:
    """Whether all lanes wrote the same."""
    is_same = all(lane.is_identical for lane in result.lanes)
    return "All lanes wrote plain's text." if is_same else "Not all lanes wrote plain's text."


def rough_words(result: RaceResult) -> str:
    """A warning about a race too short to be trusted, or nothing."""
    if result.fastest_plain.statistics.seconds >= ROUGH:
        return ""
    return "It was over in less than a second: run it again before you trust its numbers."


def notes_html(result: RaceResult | None) -> str:
    """How a race is measured, in a line each."""
    if result is None:
        return ""
    widths = " of the same width class, since same text is on" if result.plan.same_text else ""
    lines = (
        ("Short", rough_words(result)),
        ("Speed-up", f"Tokens per second against the fastest plain{_fastest_words(result)}."),
        ("Identity", f"Token by token against plain{widths}. A margin tells how far apart two scores were."),
        ("Fair", "One after the other on this machine, warm and with one seed; each lane reads the prompt anew, "
                 "begins with an empty pool, and has its clock started by its first token."),
    )  # fmt: skip
    return "".join(f"<p><b>{name}</b> {escape(words)}</p>" for name, words in lines if words)


def _fastest_words(result: RaceResult) -> str:
    plain = result.fastest_plain
    is_padded = plain.decoding.same_text and result.model.dtype in HALF
    wide = "padded like the lanes" if is_padded else "one row a step"
    is_beside = all(lane.run.decoding != plain.decoding for lane in result.lanes)
    where = ", run beside the lanes" if is_beside else ""
    return f" ({wide}{where}): {rate(plain.statistics.tokens_per_second)} tokens/s"


def _lane(runner: Runner, course: Course) -> str:
    kind = f"lane {runner.going}{' winner' if runner.is_winner else ''}"
    curve = escape(json.dumps([[round(at, 4), tokens] for at, tokens in _curve(runner, course)]))
    return (
        f'<li class="{kind}" data-curve="{curve}"><div class="lane-head"><b>{escape(title(runner.name))}</b>'
        f'{_badge(runner, course)}<span class="written">{_written(runner)}</span>'
        f'<strong class="speed">{_speed(runner)}</strong></div>{_track(runner, course)}{_facts(runner)}</li>'
    )


def _curve(runner: Runner, course: Course) -> tuple[tuple[float, int], ...]:
    """Only for the replay: a running race needs none."""
    return thinned(runner.run.curve) if runner.run and course.result else ()


def _badge(runner: Runner, course: Course) -> str:
    if runner.result is None:
        words = {"waiting": "waits", "running": "running", "ghost": "has run"}.get(runner.going, "")
        return f'<span class="badge">{words}</span>'
    kind = "good" if runner.result.is_identical else "differs"
    told = f' title="{escape(words)}"' if (words := _difference(runner, course)) else ""
    plainly = '<span class="badge">decoded plainly</span>' if _fell_back(runner.result.run) else ""
    return f'<span class="badge {kind}"{told}>{escape(badge_words(runner.result))}</span>{plainly}'


def _difference(runner: Runner, course: Course) -> str:
    difference = runner.result.difference if runner.result else None
    if difference is None or course.result is None:
        return ""
    return difference_words(difference, course.result.plan.options.sampling)


def _fell_back(run: LaneRun) -> bool:
    return run.decoder != run.decoding.decoder


def _speed(runner: Runner) -> str:
    return times(runner.speed_up)


def _written(runner: Runner) -> str:
    if runner.run is None:
        return ""
    of_all = f" of {runner.run.tokens:,}" if runner.run.reason else ""
    return f"{runner.tokens:,}{of_all} tokens"


def _track(runner: Runner, course: Course) -> str:
    words = f"{title(runner.name)}: {runner.tokens:,} of {course.length:,} tokens after {clock(course.clock)}"
    return (
        f'<div class="track" role="img" aria-label="{escape(words)}" data-length="{course.length}"'
        f' style="--done:{runner.share:.2%};--whole:{runner.whole:.2%}">'
        f'<i class="whole"></i><i class="done"></i>{_strides(runner, course.length)}</div>'
    )


def _strides(runner: Runner, length: int) -> str:
    """A hair between forward passes."""
    if runner.run is None or length > MOST_STRIDES:
        return ""
    path = "".join(f"M{tokens} 0V1" for _, tokens in runner.run.curve[:-1])
    return (
        f'<svg viewBox="0 0 {length} 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<path d="{path}"/></svg>'
    )


def _facts(runner: Runner) -> str:
    cells = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for label, value in facts(runner.run)[:-1])
    return f"<dl>{cells}</dl>"


def facts(run: LaneRun | None) -> tuple[tuple[str, str], ...]:
    """A lane's numbers with their names."""
    labels = ("tokens/s", "tokens per step", "rows per step", "first token", "time", "tokens")
    if run is None or not run.tokens:
        return tuple((label, UNKNOWN) for label in labels)
    numbers = run.statistics
    values = (
        rate(numbers.tokens_per_second),
        f"{numbers.tokens_per_step:.2f}" if numbers.steps else UNKNOWN,
        f"{numbers.rows_per_step:.1f}" if numbers.steps else UNKNOWN,
        seconds(numbers.time_to_first_token),
        seconds(run.seconds),
        f"{run.tokens:,}",
    )
    return tuple(zip(labels, values, strict=True))


def _scale(course: Course) -> str:
    """Marks under the lanes, in tokens."""
    distance = next((mark for mark in MARKS if course.length / mark <= 8), course.length)
    marks = "".join(
        f'<i style="left:{tokens / course.length:.2%}">{tokens:,}</i>'
        for tokens in range(0, course.length + 1, distance)
    )
    return f'<div class="scale" aria-hidden="true">{marks}</div>'
