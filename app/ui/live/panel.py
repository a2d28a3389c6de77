"""Renders the live numbers beside the chat: a sentence, charts, tiles, and notes on the model."""

from collections.abc import Iterator

from markupsafe import Markup

from app.conversation import ReplyState
from app.ui.frame.templates import render
from app.ui.live.charts import average_chart, length_histogram, step_bars
from app.ui.live.step_history import StepHistory
from app.ui.live.tokens import ABOUT, ORIGINS
from app.values.display_text import counted
from app.values.messages import DecoderName, ModelInfo, Statistics

UNKNOWN = "—"


def panel_html(
    state: ReplyState, history: StepHistory, decoder: DecoderName, model: ModelInfo | None
) -> Markup:
    """Return the whole panel.

    A low window can hide its part `.more`; before the first step there are no numbers."""
    numbers, hero = state.statistics, hero_number(state.statistics)
    writer = state.finished.model if state.finished else model
    is_remote = writer is not None and bool(writer.server)
    charts = None
    if history.means:  # a reply that was written before the app started has only its sums
        drawn = average_chart(history), step_bars(history), length_histogram(history)
        charts = dict(zip(("averages", "steps", "lengths"), drawn, strict=True))
    return render(
        "panel.html",
        tokens_per_step=hero,
        sentence=remote_in_words(state) if is_remote else in_words(numbers, decoder),
        auto_sentence=auto_in_words(numbers, lately(history)) if decoder == "auto" and hero else "",
        charts=charts,
        tiles=list(_tiles(numbers, is_remote)) if numbers.steps or is_remote else [],
        origins=list(_origins(history)),
        notes=list(_notes(writer)),
    )


def hero_number(statistics: Statistics) -> str:
    """Return tokens per step if they exceed plain decoding's 1; else "", and `in_words` explains why."""
    mean = f"{statistics.tokens_per_step:.2f}" if statistics.steps else ""
    return mean if mean and float(mean) > 1 else ""


def in_words(statistics: Statistics, decoder: DecoderName) -> str:
    """Describe in a sentence what the numbers mean."""
    if not statistics.steps:
        return "Send a message and watch how many tokens each forward pass writes."
    if decoder == "plain":
        return "Plain decoding: each forward pass wrote exactly one token."
    if not hero_number(statistics):
        return _why_one(statistics, decoder)
    digits = 1 if statistics.tokens_per_step >= 1.05 else 2
    mean = f"{statistics.tokens_per_step:.{digits}f}"
    return f"Each forward pass wrote {mean} tokens on average, all of them checked by the model."


def remote_in_words(state: ReplyState) -> str:
    """Describe the reply of a server, which may report at the end how many tokens its forward passes wrote."""
    numbers = state.statistics
    if not state.is_done:
        return "The server writes this reply." if numbers.seconds else "Send a message to ask the server."
    if not numbers.steps:
        return "The server does not report how many tokens each forward pass wrote."
    return f"Each forward pass of the server wrote {numbers.tokens_per_step:.1f} tokens on average."


def _why_one(statistics: Statistics, decoder: DecoderName) -> str:
    """Explain why each forward pass wrote a single token although lookahead is on."""
    one, split = "Each forward pass wrote one token:", statistics.split
    if decoder == "auto" and split.cost and split.tree + split.window <= 1:
        return f"{one} on this machine checking several tokens at once costs more time than it saves."
    if not statistics.covered:
        return f"{one} there was nothing in this text to make drafts from. Text that repeats or quotes is faster."
    return f"{one} the model rejected the drafts in {counted(statistics.covered, 'step')}."


def lately(history: StepHistory) -> float:
    """Return the mean tokens per step at the chart's end; 0 without a history."""
    return history.means[-1][0] if history.means else 0.0


def auto_in_words(statistics: Statistics, newest: float = 0.0) -> str:
    """Describe what auto does now and why that pays; "" before it has measured a step.

    The tree is the newest step's, so the sentence has the `newest` tokens per step if they are known."""
    split = statistics.split
    if not statistics.steps or not split.cost:
        return ""
    if split.tree + split.window <= 1:
        return (
            "Auto: one row per step for now, because more rows would cost more time than they save. "
            "It tries larger steps from time to time."
        )
    parts = [f"tree of {counted(split.tree, 'row')}"] if split.tree > 1 else []
    parts += [f"window of {counted(split.window, 'row')}"] if split.window else []
    mean = f"{newest or statistics.tokens_per_step:.1f} tokens"
    return f"Auto: {' and '.join(parts)}. A step costs {split.cost:.2f}x a plain one and writes {mean}."


def _origins(history: StepHistory) -> Iterator[dict[str, str]]:
    """Yield how many of the written tokens each origin proposed. The rows are also the legend of the colours."""
    tokens = sum(history.written) or 1
    for origin, count in zip(ORIGINS, history.written, strict=True):
        share = count / tokens
        yield {
            "origin": origin,
            "about": ABOUT[origin],
            "share": f"{share:.3f}" if count else "0",
            "count": f"{count:,}" if count else "",
            "percent": f"{share:.0%}",
        }


def _tiles(statistics: Statistics, is_remote: bool) -> Iterator[dict[str, str]]:
    """Yield the tiles; unknown numbers are shown as a dash. A server reports only the first two."""

    def tile(name: str, label: str, value: str, is_known: bool, hint: str) -> dict[str, str]:
        return {"id": name, "label": label, "value": value if is_known else UNKNOWN, "hint": hint}

    now, decoded = statistics, bool(statistics.steps)
    speed, first = now.tokens_per_second, now.time_to_first_token
    hint = "Speed of writing, without the time to read the prompt"
    yield tile("tokens-per-second", "Tokens/s", f"{speed:,.0f}", speed > 0 or decoded, hint)
    yield tile("first-token", "First token", seconds_in_words(first), first > 0, "Time until the first token")
    if is_remote:
        return
    hint = "Steps in which at least one drafted token was accepted"
    yield tile("hit-rate", "Hit rate", f"{now.hit_rate:.0%}", decoded, hint)
    hint = "Steps for which there was any drafted token to check"
    yield tile("coverage", "Coverage", f"{now.coverage:.0%}", decoded, hint)
    hint = "How many positions each forward pass checked, on average"
    yield tile("rows-per-step", "Rows per step", f"{now.rows_per_step:.1f}", decoded, hint)
    yield tile(
        "pool-size",
        "Pool size",
        f"{now.pool_size:,}",
        decoded,
        "Stored token sequences (n-grams) from which drafts are made",
    )


def seconds_in_words(seconds: float) -> str:
    """Format a short time: 84 ms, 1.2 s."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _notes(model: ModelInfo | None) -> Iterator[tuple[str, str]]:
    """Yield the id and text of each note: why the model is on the CPU, why it decodes plainly, and so on."""
    if model is None:
        return
    graphs = f"CUDA graphs: {model.note('graphs')}" if model.note("graphs") else ""
    for name, note in (
        ("device-note", model.note("device")),
        ("parts-note", model.note("parts")),
        ("lookahead-note", model.note("lookahead", "chains")),
        ("attention-note", model.note("attention")),
        ("same-text-note", model.refusals.get("same-text", "")),
        ("graphs-note", graphs),
        ("fused-note", model.refusals.get("fused", "")),
        ("compiler-note", model.note("compiler")),
        ("heads-note", model.refusals.get("heads", "")),
    ):
        if note:
            yield name, note
