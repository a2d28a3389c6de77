"""Renders the Race view: reads the race and its log and fills the parts of assets/ui/templates/race.html."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup

from app.conversation.race.lane_comparison import LaneReader
from app.conversation.race.race import HALF, ROUNDS, Race, RaceState
from app.conversation.reply import Reply
from app.ui.frame.page_updates import CachedRenderer, Parts
from app.ui.frame.templates import render_macro
from app.ui.race.chart import TEMPLATE, chart_html
from app.ui.race.formatting import KINDS, badge_words, between, difference_words, rate, times, title
from app.values.display_text import counted
from app.values.messages import EngineStatus, ModelInfo
from app.values.race import RaceResult, RaceSummary, SpeedByKind, TextKind

LAST_RACES = 8
ENOUGH_RACES = 3
"""The fewest races on a kind of text after which the page judges whether a decoder is faster on this kind."""
SHORT_RACE = 1.0
"""Seconds of plain decoding below which the results are not reliable."""
WARMING_UP = "Warming up: each lane writes a few tokens, so that one-time work is not measured."


class RaceRenderer(CachedRenderer):
    def __init__(self, race: Race, status: Callable[[], EngineStatus]) -> None:
        self._race = race
        self._status = status
        self._readers: dict[Reply, LaneReader] = {}
        self._history_key: object = None
        self._history = Markup()

    def reads_database(self) -> bool:
        """Return whether the next `render` reads the database."""
        return self._history_key != _history_key(self._race.state, self._status().model)

    def inputs(self) -> tuple[Any, ...]:
        state, status, known = self._race.state, self._status(), self._readers
        loading = status.note if state.phase == "warming" and status.phase == "loading" else ""
        self._readers = {
            each.reply: known.get(each.reply) or LaneReader(each.lane, each.reply) for each in state.replies
        }
        # Only new events are read.
        runs = tuple(reader.read() for reader in self._readers.values())
        return state, runs, status.model, loading

    def draw(self, inputs: tuple[Any, ...]) -> Parts:
        state, runs, model, loading = inputs
        key = _history_key(state, model)
        if key != self._history_key:
            log = self._race.log
            speeds, races = (log.summary(model), log.last(model, LAST_RACES)) if model else ((), ())
            self._history, self._history_key = history_html(model, speeds, races), key
        return {
            "race-status": status_html(state, loading),
            "race-chart": chart_html(state, runs),
            "race-notes": notes_html(state.result),
            "race-outputs": outputs_html(state.result),
            "race-history": self._history,
            "is-racing": state.is_running,
            "has-raced": state.result is not None,
        }


def _history_key(state: RaceState, model: ModelInfo | None) -> object:
    return id(state.result), model


def status_html(state: RaceState, loading: str = "") -> Markup:
    """Return the race's status: `loading`, if the model is being loaded, or what the race does or how it ended."""
    words = loading or _status_words(state)
    return render_macro(
        TEMPLATE, "status", words=words, failed=state.phase == "failed", running=state.is_running
    )


def _status_words(state: RaceState) -> str:
    match state.phase:
        case "warming":
            return WARMING_UP
        case "racing":
            current = state.replies[-1]
            which = f"Round {current.round} of {ROUNDS}"
            if current.is_reference:
                return f"{which}: plain decoding runs first as the baseline; it is not part of the race."
            lane = sum(each.round == current.round and not each.is_reference for each in state.replies)
            return f"{which}: lane {lane} is running. Finished lanes show how far they were at this time."
        case "judging":
            return "Comparing the texts."
        case "done" if state.result:
            return " ".join(filter(None, (verdict_words(state.result), state.note)))
    return state.note


def verdict_words(result: RaceResult) -> str:
    """Say which lane was fastest, if any was, and whether all lanes wrote the text of plain decoding."""
    who = "All" if all(lane.is_identical for lane in result.lanes) else "Not all"
    return f"{_fastest_words(result)} {who} lanes wrote the same text as plain decoding."


def _fastest_words(result: RaceResult) -> str:
    leader, winner = result.leader, result.winner
    name, faster = title(leader.run.name), leader.speed_up
    if not faster.median:
        return "The reply was too short to measure."
    if winner is None and leader.run.decoder != "plain" and leader.run.writes_one_token:
        return f"No lane was faster than plain decoding: {leader.run.name} wrote one token per step, too."
    if winner is None:
        return (
            "Too close to call: the fastest lanes differ no more than a single lane does from round to round."
        )
    if leader.run.decoder == "plain":
        return "Plain decoding was fastest."
    return f"{name} was fastest: {times(faster.median)} the speed of plain decoding ({between(faster)})."


def notes_html(result: RaceResult | None) -> Markup:
    """Return notes on how the race was measured."""
    if result is None:
        return Markup()
    is_short = result.fastest_plain.statistics.seconds < SHORT_RACE
    short = (
        "The race took less than a second, so its results are not reliable. Run it again." if is_short else ""
    )
    bucket = " in steps of the same size (“Same text” is on)" if result.plan.same_text else ""
    notes = {
        "Short race": short,
        "Speed-up": f"Tokens per second, divided by plain decoding's in the same round. The median, lowest and "
                    f"highest of the {ROUNDS} rounds are shown. {_plain_words(result)}",
        "Text": f"Compared token by token with plain decoding{bucket}. The margin is the difference of the "
                "two highest scores.",
        "Conditions": "The lanes run in turn on this computer, warmed up and with the same seed. Each reads the "
                      "prompt itself and remembers nothing from earlier texts; its clock starts at its first "
                      "token. For each lane the bars show the run whose speed is the median.",
    }  # fmt: skip
    return render_macro(TEMPLATE, "notes", notes={name: words for name, words in notes.items() if words})


def _plain_words(result: RaceResult) -> str:
    plain = result.fastest_plain
    is_padded = plain.decoding.same_text and result.model.dtype in HALF
    size = "in steps padded to as many rows as those of the lanes" if is_padded else "one token per step"
    is_extra = all(lane.run.decoding != plain.decoding for lane in result.lanes)
    extra = ", run in addition to the lanes" if is_extra else ""
    speed = rate(plain.statistics.tokens_per_second)
    return f"Plain decoding wrote {speed} tokens/s ({size}{extra})."


def outputs_html(result: RaceResult | None) -> Markup:
    """Return the text of each lane, marked at the first token that differs from plain decoding."""
    if result is None:
        return Markup()
    outputs = [
        {
            "name": lane.run.name,
            "title": title(lane.run.name),
            "badge": badge_words(lane),
            "is_identical": lane.is_identical,
            "difference": difference_words(lane, result),
            "parts": lane.run.around(lane.difference.index if lane.difference else len(lane.run.ends)),
        }
        for lane in result.lanes
    ]
    return render_macro(TEMPLATE, "outputs", outputs=outputs)


def history_html(
    model: ModelInfo | None, speeds: Sequence[SpeedByKind], races: Sequence[RaceSummary]
) -> Markup:
    """Return a chart of speed-ups by kind of text, and the last races."""
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
        summary=history_summary(best),
        kinds=[(KINDS[kind], _rows(kind, speeds, best[kind], most)) for kind in best],
        races=list(map(_race, races)),
    )


def best_by_kind(speeds: Sequence[SpeedByKind]) -> dict[TextKind, SpeedByKind]:
    """Return the best decoder except plain for each kind of text, in the order of the page. Decoders rank by
    whether they have ENOUGH_RACES, then by whether they are faster than plain, then by speed-up."""
    by_kind = {kind: [one for one in speeds if one.kind == kind and one.lane != "plain"] for kind in KINDS}
    return {
        kind: max(each, key=lambda one: (one.races >= ENOUGH_RACES, one.is_faster, one.speed_up))
        for kind, each in by_kind.items()
        if each
    }


def history_summary(best: dict[TextKind, SpeedByKind]) -> str:
    """Say on which kinds of text a decoder is faster than plain decoding, and on which none is."""
    known = {kind: one for kind, one in best.items() if one.races >= ENOUGH_RACES}
    words = {
        "Faster than plain decoding on": [kind for kind, one in known.items() if one.is_faster],
        "Not faster on": [kind for kind, one in known.items() if not one.is_faster],
        "Not enough races yet for": [kind for kind in best if kind not in known],
    }
    sentences = []
    for about, kinds in words.items():
        *most, last = [KINDS[kind].lower() for kind in kinds] or [""]
        if last:
            sentences.append(f"{about} {', '.join(most)} and {last}." if most else f"{about} {last}.")
    return " ".join(sentences)


def _rows(
    kind: TextKind, speeds: Sequence[SpeedByKind], best: SpeedByKind, most: float
) -> list[dict[str, object]]:
    return [
        {
            "name": title(one.lane),
            "races": counted(one.races, "race"),
            "is_best": one is best and one.is_faster and one.races >= ENOUGH_RACES,
            "baseline": f"{1 / most:.2%}",
            "width": f"{one.speed_up / most:.2%}",
            "speed": times(one.speed_up),
        }
        for one in sorted(speeds, key=lambda one: -one.speed_up)
        if one.kind == kind and one.lane != "plain"
    ]


def _race(race: RaceSummary) -> dict[str, str]:
    lanes = " · ".join(f"{lane.name}: {times(lane.speed_up)}" for lane in race.lanes)
    differs = "" if all(lane.is_identical for lane in race.lanes) else " · texts differ"
    at = datetime.fromtimestamp(race.at).strftime("%d %b, %H:%M")
    return {"prompt": race.prompt, "kind": KINDS[race.kind], "at": at, "lanes": lanes + differs}
