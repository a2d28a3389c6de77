"""Writes a race in words: its results, its verdicts, and the whole race as a JSON file."""

import json
from dataclasses import asdict
from datetime import UTC, datetime

from app.ui.frame.file_export import file_html
from app.values.race import LaneResult, LaneRun, RaceResult, Spread, TextKind

KINDS: dict[TextKind, str] = {
    "chat": "Chat",
    "code": "Code",
    "maths": "Maths",
    "quoting": "Quoting",
    "own": "Own text",
}
UNKNOWN = "—"
ROUNDING = 0.1
"""Rounding may change the order of two scores (logits) that are closer than this."""


def title(name: str) -> str:
    """Return a lane's name with a capital: "Lookahead 5/4/5"."""
    return name[:1].upper() + name[1:]


def times(speed_up: float) -> str:
    """Return a speed-up as "1.74x"; a dash if it is unknown."""
    return f"{speed_up:.2f}x" if speed_up else UNKNOWN


def between(speed_up: Spread) -> str:
    """Return the lowest and the highest speed-up of the rounds: "1.70x to 1.81x"."""
    return f"{times(speed_up.low)} to {times(speed_up.high)}"


def rate(tokens_per_second: float) -> str:
    """Return tokens per second as "41.3", "412" or "1,203"; a dash if they are unknown."""
    if not tokens_per_second:
        return UNKNOWN
    return f"{tokens_per_second:,.0f}" if tokens_per_second >= 99.95 else f"{tokens_per_second:.1f}"


def seconds(value: float) -> str:
    """Return a duration as "84 ms", "1.24 s" or "63.0 s"."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def clock_words(value: float) -> str:
    return f"{value:.2f} s"


def badge_words(lane: LaneResult) -> str:
    """Return "identical text", or which token differs first, and the margin if it is known."""
    difference = lane.difference
    if difference is None:
        return "identical text"
    words = f"differs at token {difference.index + 1:,}"
    return f"{words}: margin {difference.margin.margin:.2f}" if difference.margin else words


def difference_words(lane: LaneResult, result: RaceResult) -> str:
    """Explain where the texts first differ, and how close the model's scores were; "" if they are identical."""
    difference, sampling = lane.difference, result.plan.options.sampling
    if difference is None:
        return ""
    ours, plain = _quoted(difference.said), _quoted(difference.plain_said)
    texts = f"This lane wrote {ours} where plain decoding wrote {plain}."
    margin = difference.margin
    if margin is None:
        return texts
    if sampling.temperature or sampling.repetition_penalty != 1:
        why = " before sampling"  # the margin alone does not explain a sampled difference
    else:
        is_close = margin.margin < ROUNDING
        why = ": close enough for rounding to decide" if is_close else ": more than rounding explains"
    scores = f"The model scored {_quoted(margin.first)} and {_quoted(margin.second)} highest"
    return f"{texts} {scores}, {margin.margin:.3f} apart{why}."


def _quoted(token: str) -> str:
    return f"“{token}”" if token else "nothing more"


def race_json(result: RaceResult) -> str:
    """Return the race as JSON: prompt, options, model, machine, and each run's text, tokens, curve and results."""
    plan = result.plan
    report = {
        "app": f"Foresight {result.app}",
        "at": datetime.fromtimestamp(result.at, UTC).isoformat(timespec="seconds"),
        "machine": result.machine,
        "model": asdict(result.model),
        "prompt": asdict(plan.prompt),
        "options": asdict(plan.options),
        "fastest_plain": _run(result.fastest_plain),
        "lanes": [
            {
                "name": lane.run.name,
                "speed_up": asdict(lane.speed_up),
                "tokens_per_second_by_round": lane.speeds,
                "is_identical": lane.is_identical,
                "difference": asdict(lane.difference) if lane.difference else None,
                **_run(lane.run),
            }
            for lane in result.lanes
        ],
    }
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def json_file(result: RaceResult) -> str:
    """Return the HTML that makes the page download the race as a JSON file."""
    at = datetime.fromtimestamp(result.at).strftime("%Y-%m-%d-%H%M%S")
    name = f"foresight-race-{result.plan.prompt.kind}-{at}.json"
    return file_html(name, race_json(result), "application/json")


def _run(run: LaneRun) -> dict[str, object]:
    numbers = run.statistics
    return {
        **asdict(run),
        "tokens_per_second": numbers.tokens_per_second,
        "tokens_per_step": numbers.tokens_per_step,
        "rows_per_step": numbers.rows_per_step,
        "seconds": run.seconds,
    }
