"""The history of races with a model on this computer: speed-ups by kind of text, and the last races."""

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

from app.ui.frame.templates import render_macro
from app.ui.race.formatting import KINDS, rate, times, title
from app.values.display_text import counted
from app.values.messages import ModelInfo
from app.values.race import LaneSummary, RaceSummary, SpeedByKind, TextKind

ENOUGH_RACES = 3
"""Races of a kind of text before anything is said about it."""


def history_html(
    model: ModelInfo | None, speeds: Sequence[SpeedByKind], races: Sequence[RaceSummary]
) -> Markup:
    """A chart of speed-ups by kind of text, and the last races."""
    if model is None:
        words = "Load a model to see its races."
    else:
        about = f"{model.name}, {model.dtype} on {model.device}"
        words = f"Median speed-up over plain decoding, {about}" if races else f"No races yet with {about}."
    best = best_by_kind(speeds) if races else {}
    most = max([1.0, *(one.speed_up for one in best.values())])
    return render_macro(
        "race.html",
        "history",
        words=words,
        summary=summary(best),
        kinds=[(KINDS[kind], _rows(kind, speeds, best[kind], most)) for kind in best],
        races=list(map(_race, races)),
    )


def best_by_kind(speeds: Sequence[SpeedByKind]) -> dict[TextKind, SpeedByKind]:
    """The fastest decoder for each kind of text, of those with enough races if there are any; in the order of the
    page. Plain decoding is the baseline."""
    by_kind = {kind: [one for one in speeds if one.kind == kind and one.lane != "plain"] for kind in KINDS}
    return {
        kind: max(each, key=lambda one: (one.races >= ENOUGH_RACES, one.is_faster, one.speed_up))
        for kind, each in by_kind.items()
        if each
    }


def summary(best: dict[TextKind, SpeedByKind]) -> str:
    """On which kinds of text a decoder is faster than plain decoding, and on which none is."""
    known = {kind: one for kind, one in best.items() if one.races >= ENOUGH_RACES}
    words = {
        "Faster on": [kind for kind, one in known.items() if one.is_faster],
        "Not faster on": [kind for kind, one in known.items() if not one.is_faster],
        "Too few races to tell on": [kind for kind in best if kind not in known],
    }
    return " ".join(
        f"{about} {_listed([KINDS[kind].lower() for kind in kinds])}."
        for about, kinds in words.items()
        if kinds
    )


def _rows(
    kind: TextKind, speeds: Sequence[SpeedByKind], best: SpeedByKind, most: float
) -> list[dict[str, object]]:
    rows = sorted(
        (one for one in speeds if one.kind == kind and one.lane != "plain"), key=lambda one: -one.speed_up
    )
    return [
        {
            "name": title(one.lane),
            "races": counted(one.races, "race"),
            "is_best": one is best and one.is_faster and one.races >= ENOUGH_RACES,
            "baseline": f"{1 / most:.2%}",
            "width": f"{one.speed_up / most:.2%}",
            "speed": times(one.speed_up),
        }
        for one in rows
    ]


def _race(race: RaceSummary) -> dict[str, str]:
    lanes = " · ".join(f"{lane.name}: {_speed(lane)}" for lane in race.lanes)
    differs = "" if all(lane.is_identical for lane in race.lanes if not lane.server) else " · texts differ"
    at = datetime.fromtimestamp(race.at).strftime("%d %b, %H:%M")
    return {"prompt": race.prompt, "kind": KINDS[race.kind], "at": at, "lanes": lanes + differs}


def _speed(lane: LaneSummary) -> str:
    """A lane's speed-up; of a remote one, which is compared with nothing, the tokens per second."""
    if not lane.server:
        return times(lane.speed_up)
    counted = "pieces" if lane.counts_pieces else "tokens"
    return f"{rate(lane.tokens_per_second)} {counted}/s" if lane.tokens_per_second else "no result"


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
