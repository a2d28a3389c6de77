"""What races have told of a model on this machine: on which kind of text which decoder pays."""

from collections.abc import Sequence
from datetime import datetime
from html import escape

from app.messages import ModelInfo
from app.race_messages import RaceSummary, SpeedByKind, TextKind
from app.ui.race.words import KINDS, times, title

PAYS = 1.02
"""A speed-up from which on a decoder pays: less is the clock's noise."""


def history_html(model: ModelInfo | None, speeds: Sequence[SpeedByKind], races: Sequence[RaceSummary]) -> str:
    """The chart by kind of text, and the newest races."""
    if model is None:
        return _section("Once a model is loaded, this tells where lookahead pays with it.", "")
    about = f"{model.name}, {model.dtype} on {model.device}"
    if not races:
        return _section(f"No races yet with {about}.", "")
    return _section(f"Median speed-up over plain, {about}", _chart(speeds)) + _list(races)


def advice(speeds: Sequence[SpeedByKind]) -> str:
    """The chart in a sentence: where something pays, and where nothing does."""
    best = _best(speeds)
    pays = [KINDS[kind].lower() for kind, one in best.items() if one.speed_up >= PAYS]
    not_ = [KINDS[kind].lower() for kind, one in best.items() if one.speed_up < PAYS]
    said = [f"Pays on {_joined(pays)}." if pays else "", f"Does not pay on {_joined(not_)}." if not_ else ""]
    return " ".join(filter(None, said))


def _section(words: str, inner: str) -> str:
    told = f'<p class="facts">{escape(words)}</p>{inner}'
    return f'<section aria-label="Where it pays"><h3>Where it pays</h3>{told}</section>'


def _best(speeds: Sequence[SpeedByKind]) -> dict[TextKind, SpeedByKind]:
    """For each kind, in the page's order, the decoder that brings most; plain is the measure."""
    of_kind = {kind: [one for one in speeds if one.kind == kind and one.lane != "plain"] for kind in KINDS}
    return {kind: max(each, key=lambda one: one.speed_up) for kind, each in of_kind.items() if each}


def _chart(speeds: Sequence[SpeedByKind]) -> str:
    best = _best(speeds)
    if not best:
        return ""
    most = max(1.0, *(one.speed_up for one in best.values()))
    groups = "".join(_group(kind, speeds, best[kind], most) for kind in best)
    return f'<p class="advice">{escape(advice(speeds))}</p><div class="pays">{groups}</div>'


def _group(kind: TextKind, speeds: Sequence[SpeedByKind], best: SpeedByKind, most: float) -> str:
    of_kind = [one for one in speeds if one.kind == kind and one.lane != "plain"]
    of_kind.sort(key=lambda one: -one.speed_up)
    rows = "".join(_row(one, one is best, most) for one in of_kind)
    return f"<h4>{escape(KINDS[kind])}</h4><ul>{rows}</ul>"


def _row(one: SpeedByKind, is_best: bool, most: float) -> str:
    pays = " pays" if is_best and one.speed_up >= PAYS else ""
    races = f"{one.races} race{'s' if one.races != 1 else ''}"
    return (
        f'<li class="speed-row{pays}" title="{races}"><span>{escape(title(one.lane))}</span>'
        f'<span class="rod" style="--one:{1 / most:.2%}"><i style="width:{one.speed_up / most:.2%}"></i></span>'
        f"<b>{times(one.speed_up)}</b></li>"
    )


def _list(races: Sequence[RaceSummary]) -> str:
    rows = "".join(map(_past, races))
    return f'<section aria-label="Last races"><h3>Last races</h3><ul class="past">{rows}</ul></section>'


def _past(race: RaceSummary) -> str:
    at = datetime.fromtimestamp(race.at).strftime("%d %b, %H:%M")
    lanes = " · ".join(f"{lane.name}: {times(lane.speed_up)}" for lane in race.lanes)
    differs = "" if all(lane.is_identical for lane in race.lanes) else " · texts differ"
    return (
        f'<li title="{escape(race.prompt)}"><p><b>{KINDS[race.kind]}</b> <time>{at}</time></p>'
        f'<p class="facts">{escape(lanes + differs)}</p></li>'
    )


def _joined(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
