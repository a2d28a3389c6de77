"""The live numbers beside the chat: a sentence, tiles, and a strip with one bar per recent step."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from app.conversation import ReplyState
from app.messages import DecoderName, Event, ModelInfo, Origin, Piece, Statistics

STRIP_STEPS = 56
"""How many steps the strip shows."""

BAR, GAP, TOKEN, STRIP_HEIGHT = 4, 2, 8, 56
"""Sizes in the strip's own units; a token is one box of a bar, lower where a long step needs the room."""

UNKNOWN = "—"

ORIGINS: dict[Origin, str] = {
    "model": "model",
    "successor": "successor",
    "window": "window",
    "prompt": "prompt",
    "output": "output",
    "document": "document",
    "history": "history",
}
"""Who proposed a token, in the words of the legend."""


@dataclass(frozen=True, slots=True)
class Trail:
    """The newest steps of a reply: for each, the origins of the tokens it wrote."""

    steps: tuple[tuple[Origin, ...], ...] = ()
    counted: int = 0


def extend(trail: Trail, events: Iterable[Event]) -> Trail:
    """The trail after these events. The prefill's first token belongs to no step and leaves no bar."""
    steps, counted = list(trail.steps), trail.counted
    for event in events:
        if isinstance(event, Piece) and event.statistics.steps > counted:
            counted = event.statistics.steps
            steps.append(event.origins)
    return Trail(tuple(steps[-STRIP_STEPS:]), counted)


def panel(state: ReplyState, trail: Trail, decoder: DecoderName, model: ModelInfo | None) -> str:
    """The whole panel as HTML."""
    parts = (
        _sentence(state.statistics, decoder),
        _strip(trail),
        _legend(),
        _tiles(state.statistics),
        _note(model),
    )
    return f'<section class="panel" aria-label="Live numbers">{"".join(parts)}</section>'


def in_words(statistics: Statistics, decoder: DecoderName) -> str:
    """What the numbers mean, in a sentence."""
    if not statistics.steps:
        return "Send a message and watch how many tokens each forward pass writes."
    if decoder == "plain":
        return "Plain decoding: each forward pass wrote exactly one token."
    mean = f"{statistics.tokens_per_step:.1f}"
    return f"Each forward pass wrote {mean} tokens on average, all of them checked by the model."


def auto_in_words(statistics: Statistics) -> str:
    """What auto does at the moment, and why that pays; nothing before it has measured a step."""
    split = statistics.split
    if not statistics.steps or not split.cost:
        return ""
    if split.tree + split.window <= 1:
        return "Auto: one row, since more would cost more than they bring here."
    parts = [f"tree of {split.tree} rows"] if split.tree > 1 else []
    parts += [f"window of {split.window} rows"] if split.window else []
    mean = f"{statistics.tokens_per_step:.1f} tokens per step"
    return f"Auto: {' and '.join(parts)}, step costs {split.cost:.2f}x, {mean}."


def _sentence(statistics: Statistics, decoder: DecoderName) -> str:
    number = f"{statistics.tokens_per_step:.2f}" if statistics.steps else UNKNOWN
    known = "known" if statistics.steps else "unknown"
    return (
        f'<p class="headline"><b id="tokens-per-step" class="{known}">{number}</b><span>tokens per step</span></p>'
        f'<p class="in-words">{escape(in_words(statistics, decoder))}</p>{_auto(statistics, decoder)}'
    )


def _auto(statistics: Statistics, decoder: DecoderName) -> str:
    words = auto_in_words(statistics) if decoder == "auto" else ""
    return f'<p class="in-words" id="auto">{escape(words)}</p>' if words else ""


def _tiles(statistics: Statistics) -> str:
    decoded = bool(statistics.steps)
    tiles = (
        ("Tokens/s", f"{statistics.tokens_per_second:,.0f}", statistics.seconds > 0, "tokens-per-second"),
        ("First token", seconds_in_words(statistics.time_to_first_token), statistics.time_to_first_token > 0,
         "first-token"),
        ("Hit rate", f"{statistics.hit_rate:.0%}", decoded, "hit-rate"),
        ("Coverage", f"{statistics.coverage:.0%}", decoded, "coverage"),
        ("Rows per step", f"{statistics.rows_per_step:.1f}", decoded, "rows-per-step"),
        ("Pool size", f"{statistics.pool_size:,}", decoded, "pool-size"),
    )  # fmt: skip
    cells = (_tile(label, value if known else UNKNOWN, name) for label, value, known, name in tiles)
    return f'<dl class="tiles">{"".join(cells)}</dl>'


HINTS = {
    "tokens-per-second": "Speed of decoding, reading the prompt excluded",
    "first-token": "Time until the first token was there",
    "hit-rate": "Steps in which at least one drafted token was accepted",
    "coverage": "Steps for which the pool had any draft",
    "rows-per-step": "Mean number of rows that a forward pass computed",
    "pool-size": "N-grams in the pool",
}


def _tile(label: str, value: str, name: str) -> str:
    return f'<div title="{HINTS[name]}"><dt>{label}</dt><dd id="{name}">{value}</dd></div>'


def seconds_in_words(seconds: float) -> str:
    """A short time: 84 ms, 1.2 s."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _strip(trail: Trail) -> str:
    width = STRIP_STEPS * (BAR + GAP)
    longest = max(map(len, trail.steps), default=1)
    token = min(TOKEN, STRIP_HEIGHT / longest)
    bars = "".join(_bar(index * (BAR + GAP), step, token) for index, step in enumerate(trail.steps))
    return (
        f'<svg class="strip" viewBox="0 0 {width} {STRIP_HEIGHT}" role="img" preserveAspectRatio="none" '
        f'aria-label="Tokens of the last {len(trail.steps)} steps">'
        f'<line x1="0" x2="{width}" y1="{STRIP_HEIGHT}" y2="{STRIP_HEIGHT}"/>{bars}</svg>'
    )


def _bar(x: int, step: tuple[Origin, ...], token: float) -> str:
    return "".join(
        f'<rect class="{origin}" x="{x}" y="{STRIP_HEIGHT - (below + 1) * token:g}" '
        f'width="{BAR}" height="{token - 1:g}"/>'
        for below, origin in enumerate(step)
    )


def _legend() -> str:
    entries = "".join(f'<li class="{origin}">{words}</li>' for origin, words in ORIGINS.items())
    return (
        '<p class="legend-title">Recent steps, a box per token, by who proposed it:</p>'
        f'<ul class="legend">{entries}</ul>'
    )


def _note(model: ModelInfo | None) -> str:
    """What is to be known of the model: why it decodes plainly, how it attends, what was found about same text."""
    if model is None:
        return ""
    graphs = f"CUDA graphs: {model.graphs_note}" if model.graphs_note else ""
    notes = (
        ("lookahead-note", model.lookahead_note),
        ("attention-note", model.attention_note),
        ("same-text-note", model.same_text_note),
        ("graphs-note", graphs),
    )
    return "".join(f'<p class="in-words" id="{name}">{escape(note)}</p>' for name, note in notes if note)
