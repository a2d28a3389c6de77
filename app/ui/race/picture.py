"""A race as one SVG file to show to others: self-contained, in light colours, with what is needed to judge it."""

from datetime import datetime
from html import escape

from app.race_messages import RaceResult
from app.ui.race.board import facts, fastest_words, same_words, verdict_words
from app.ui.race.course import Course, Runner, photo_finish
from app.ui.race.words import KINDS, badge_words, clock, rate, times, title

WIDTH, EDGE, LANE, TOP = 960, 48, 104, 168
INK, SOFT, PAPER, TRACK, ACCENT, GREY, WARN = (
    "#1d1f20", "#5d5b55", "#faf9f6", "#e9e6df", "#0f766e", "#8b8f95", "#9a3412",
)  # fmt: skip
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
LONGEST_QUOTE = 96
"""Characters of the prompt in the picture."""


def race_svg(result: RaceResult) -> str:
    """The picture."""
    course = photo_finish(result)
    height = TOP + LANE * len(course.runners) + 108
    lanes = "".join(_lane(runner, course, TOP + LANE * i) for i, runner in enumerate(course.runners))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="{FONT}" role="img">'
        f"<title>{escape(verdict_words(result))}</title>"
        f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>{_head(result, course)}{lanes}'
        f"{_foot(result, height)}</svg>\n"
    )


def settings_words(result: RaceResult) -> str:
    """How the lanes were drawn, in a line."""
    options = result.plan.options
    sampling = options.sampling
    drawn = (
        f"temperature {sampling.temperature:g}, seed {sampling.seed}" if sampling.temperature else "greedy"
    )
    same = f"same text {'on' if result.plan.same_text else 'off'}"
    return f"{drawn} · at most {options.max_new_tokens:,} tokens · {same} · each lane cold, after a warm-up"


def model_words(result: RaceResult) -> str:
    """What ran where."""
    model = result.model
    packed = "" if model.quantisation == "none" else f" {model.quantisation}"
    return " · ".join(filter(None, (f"{model.name}{packed}", model.dtype, model.device, result.machine)))


def _head(result: RaceResult, course: Course) -> str:
    prompt = " ".join(result.plan.prompt.text.split())
    quote = prompt if len(prompt) <= LONGEST_QUOTE else prompt[: LONGEST_QUOTE - 1] + "…"
    kind = KINDS[result.plan.prompt.kind]
    return (
        _text(EDGE, 62, fastest_words(result), 24, INK, weight=650)
        + _text(EDGE, 94, f"{kind}: {quote}", 15, SOFT)
        + _text(
            EDGE, 132, f"{same_words(result)} Each segment is one forward pass; photo finish at", 13, SOFT
        )
        + _text(WIDTH - EDGE, 132, clock(course.clock), 20, INK, weight=600, anchor="end")
    )


def _lane(runner: Runner, course: Course, top: int) -> str:
    result = runner.result
    if result is None or runner.run is None:
        return ""
    width = WIDTH - 2 * EDGE
    colour = ACCENT if runner.is_winner else GREY
    numbers = " · ".join(f"{value} {label}" for label, value in facts(runner.run) if label != "time")
    return (
        _text(EDGE, top + 18, title(runner.name), 17, INK, weight=600)
        + _text(
            WIDTH - EDGE,
            top + 18,
            times(result.speed_up),
            20,
            ACCENT if runner.is_winner else INK,
            650,
            "end",
        )
        + _text(
            WIDTH - EDGE - 90,
            top + 18,
            badge_words(result),
            13,
            SOFT if result.is_identical else WARN,
            400,
            "end",
        )
        + f'<rect x="{EDGE}" y="{top + 30}" width="{width}" height="24" rx="5" fill="{TRACK}"/>'
        + f'<rect x="{EDGE}" y="{top + 30}" width="{width * runner.whole:.1f}" height="24" rx="5" '
        + f'fill="{colour}" opacity=".22"/>'
        + f'<rect x="{EDGE}" y="{top + 30}" width="{width * runner.share:.1f}" height="24" rx="5" fill="{colour}"/>'
        + _strides(runner, course.length, width, top + 30)
        + _text(EDGE, top + 74, numbers, 13, SOFT)
    )


def _strides(runner: Runner, length: int, width: int, top: int) -> str:
    curve = runner.run.curve if runner.run else ()
    if width / length < 3:
        return ""
    path = "".join(f"M{EDGE + width * tokens / length:.1f} {top}v24" for _, tokens in curve[:-1])
    return f'<path d="{path}" stroke="{PAPER}" stroke-width="1"/>'


def _foot(result: RaceResult, height: int) -> str:
    plain = rate(result.fastest_plain.statistics.tokens_per_second)
    at = datetime.fromtimestamp(result.at).strftime("%d %B %Y")
    lines = (
        model_words(result),
        settings_words(result),
        f"Speed-up against the fastest plain, {plain} tokens/s · Foresight {result.app} · {at}",
    )
    return "".join(_text(EDGE, height - 74 + 22 * i, line, 13, SOFT) for i, line in enumerate(lines))


def _text(
    x: int, y: int, words: str, size: int, colour: str, weight: int = 400, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )
