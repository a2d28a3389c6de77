"""The live numbers beside the chat: a sentence, a moving chart, tiles, and below them what the steps did.

it is drawn up to 12 times a second on the engine's own processor: everything here is plain formatting.
"""

from html import escape

from app.conversation import ReplyState
from app.messages import DecoderName, ModelInfo, Statistics
from app.ui.live.bars import lengths, sources
from app.ui.live.chart import chart
from app.ui.live.strip import strip
from app.ui.live.trail import Trail

UNKNOWN = "—"


def panel(state: ReplyState, trail: Trail, decoder: DecoderName, model: ModelInfo | None) -> str:
    """The whole panel as HTML. `.more` is what a low window can do without."""
    # Of a reply that was written before the app began, or before another chat's, the sums alone are known.
    has_steps = bool(trail.means) or not state.statistics.steps
    parts = (
        _sentence(state.statistics, decoder),
        chart(trail) if has_steps else "",
        _tiles(state.statistics),
        f'<div class="more">{_steps(trail)}{sources(trail)}{lengths(trail)}</div>' if has_steps else "",
        _note(model),
    )
    # Never announced: a screen reader asks for these numbers, they do not call.
    return f'<section class="panel" aria-label="Live numbers" aria-live="off">{"".join(parts)}</section>'


def _steps(trail: Trail) -> str:
    return f'<p class="legend-title">Recent steps, a box per token</p>{strip(trail)}'


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


def _note(model: ModelInfo | None) -> str:
    """What is to be known of the model: why it is on the CPU or decodes plainly, how it attends, and the like."""
    if model is None:
        return ""
    graphs = f"CUDA graphs: {model.graphs_note}" if model.graphs_note else ""
    notes = (
        ("device-note", model.device_note),
        ("lookahead-note", model.lookahead_note),
        ("attention-note", model.attention_note),
        ("same-text-note", model.same_text_note),
        ("graphs-note", graphs),
    )
    return "".join(f'<p class="in-words" id="{name}">{escape(note)}</p>' for name, note in notes if note)
