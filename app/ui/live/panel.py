"""Renders the live numbers beside the chat: the time that lookahead saved, the hit rate, the tokens per step
and their curve, and, if the user opens them, further numbers, charts and notes on the model."""

from collections.abc import Iterator

from markupsafe import Markup

from app.conversation import ReplyState
from app.ui.frame.templates import render
from app.ui.live.charts import hit_chart, length_histogram, step_bars, token_chart
from app.ui.live.step_history import StepHistory
from app.ui.live.tokens import ABOUT, ORIGINS
from app.values.display_text import counted, seconds_in_words
from app.values.messages import DecoderName, ModelInfo, Statistics

SLOWER = 0.95
"""If a whole reply's speed-up is below this, the panel reports that lookahead made the reply take longer."""
FEW_TOKENS = 16
"""With fewer tokens, the panel does not report how much time was saved, because the estimate would be inexact."""
EXAMPLE = Statistics(tokens=435, steps=172, hits=89, seconds=11.3, cost=191.1)
"""The statistics of a real reply, shown as an example: see the panel's template."""
EXAMPLE_COURSE = (
    1.3, 1.3, 1.3, 1.5, 1.8, 1.9, 2.2, 2.4, 2.9, 3.3, 3.6, 3.7, 3.7, 4.2, 4.5, 4.4, 4.2, 4.5, 4.5, 4.5, 4.6, 4.7,
    4.8, 4.7, 3.0, 1.9, 1.4, 1.1, 1.1, 1.5, 1.6, 2.0, 2.6, 3.2,
)  # fmt: skip
"""Points of the example's curve: its tokens per step from the beginning to the end."""


def panel_html(
    state: ReplyState, history: StepHistory, decoder: DecoderName, model: ModelInfo | None
) -> Markup:
    """Return the whole panel. Its part `.more` is shown only if the user wants more numbers."""
    writer = state.finished.model if state.finished else model
    is_remote = writer is not None and bool(writer.server)
    is_local = not is_remote and decoder != "plain"
    is_example = is_local and state.phase == "finished" and not (state.finished or state.statistics.seconds)
    numbers = EXAMPLE if is_example else state.statistics
    means = [(tokens, 0.0) for tokens in EXAMPLE_COURSE] if is_example else history.means
    return render(
        "panel.html",
        is_example=is_example,
        speed_up=speed_up_in_words(numbers),
        saved=saved_in_words(numbers, state.is_done),
        sentence="" if is_example else remote_in_words(state) if is_remote else in_words(state, decoder),
        why_plain=writer.note("lookahead", "chains") if writer else "",
        figures=list(_figures(numbers)) if is_local and numbers.steps else [],
        chart=token_chart(means) if is_local and means else "",
        pace=pace_in_words(state.statistics),
        more=_more(state.statistics, history) if state.statistics.steps and not is_remote else {},
        auto_sentence=auto_in_words(state.statistics) if decoder == "auto" else "",
        notes=list(_notes(writer)),
    )


def _more(numbers: Statistics, history: StepHistory) -> dict[str, object]:
    """Return the further numbers. A reply that was written before the app started has no charts."""
    drawn = bool(history.means)
    return {
        "tiles": list(_tiles(numbers)),
        "hits": hit_chart(history.means) if drawn else "",
        "steps": step_bars(history) if drawn else "",
        "lengths": length_histogram(history) if drawn else "",
        "origins": list(_origins(history)),
    }


def speed_up_in_words(statistics: Statistics) -> str:
    """Return how many times as fast as plain decoding the reply is, such as "2.4". Returns "" if that is unknown or
    not above 1, if the times with and without lookahead are the same once rounded, or if there are fewer than
    FEW_TOKENS tokens."""
    times, (now, plain) = f"{statistics.speed_up:.1f}", _times_in_words(statistics)
    return times if float(times) > 1 and now != plain and statistics.tokens >= FEW_TOKENS else ""


def _times_in_words(statistics: Statistics) -> tuple[str, str]:
    """Return the time that the reply took, and the time that it would have taken without lookahead."""
    return seconds_in_words(statistics.seconds), seconds_in_words(statistics.plain_seconds)


def saved_in_words(statistics: Statistics, is_done: bool) -> str:
    """Return both times in a phrase; "" if there is no speed-up to show."""
    if not speed_up_in_words(statistics):
        return ""
    now, plain = _times_in_words(statistics)
    return f"{now} instead of {plain}" if is_done else f"{now} so far, instead of {plain}"


def in_words(state: ReplyState, decoder: DecoderName) -> str:
    """Return the sentence that the panel shows in place of saved time; "" if it shows saved time."""
    statistics = state.statistics
    if not statistics.steps:
        if decoder == "plain":
            return "Without lookahead each step writes one token."
        return "There are no numbers about this reply." if state.is_done else "The reply has not begun."
    if decoder == "plain":
        return (
            "Written without lookahead: each step wrote one token. “Write again with lookahead” in the "
            "reply's menu compares both."
        )
    if not statistics.cost:
        return "How much time lookahead saved is not known, because steps were not measured."
    if statistics.tokens < FEW_TOKENS:
        return f"{counted(statistics.tokens, 'token')}: too few to tell how much time lookahead saves."
    if speed_up_in_words(statistics):
        return ""
    if not state.is_done:
        return "Lookahead has saved no time so far."
    now, plain = _times_in_words(statistics)
    if statistics.speed_up >= SLOWER or now == plain:
        return f"Lookahead saved no time here, because {_why(statistics, 'as much time as')}"
    return (
        f"Lookahead took longer here, {now} instead of {plain}, because {_why(statistics, 'more time than')}"
    )


def remote_in_words(state: ReplyState) -> str:
    """Describe the reply of a server, which may report at the end how many tokens its forward passes wrote."""
    numbers = state.statistics
    if not state.is_done:
        return "The server writes this reply." if numbers.seconds else "Send a message to ask the server."
    if not numbers.steps:
        return "The server does not report how many tokens each run of its model wrote."
    return f"Each run of the server's model wrote {numbers.tokens_per_step:.1f} tokens on average."


def _why(statistics: Statistics, cost: str) -> str:
    if statistics.split.tree + statistics.split.window <= 1:
        return "on this computer checking several tokens at once costs more time than it saves."
    if not statistics.covered:
        return "there was nothing in this text to guess from. Text that repeats itself is faster."
    return f"checking the guesses took {cost} the right ones saved. Text that repeats itself is faster."


def _figures(statistics: Statistics) -> Iterator[tuple[str, str, str, str]]:
    """Yield the id, the value, the name and an explanation of the tokens per step and of the hit rate."""
    mean, rate = f"{statistics.tokens_per_step:.1f}", f"{statistics.hit_rate:.0%}"
    yield "tokens-per-step", mean, "tokens per step", "Without lookahead each step writes one."
    hits = f"A guess was right in {statistics.hits:,} of {counted(statistics.steps, 'step')}."
    yield "hit-rate", rate, "hit rate", hits


def pace_in_words(statistics: Statistics) -> str:
    """Return the speed of writing, and the time to the first token if known; "" while the speed is unknown."""
    if not statistics.tokens_per_second:
        return ""
    speed = f"{statistics.tokens_per_second:,.0f} tokens per second"
    first = statistics.time_to_first_token
    return f"{speed}; the first token came after {seconds_in_words(first)}" if first else speed


def auto_in_words(statistics: Statistics) -> str:
    """Describe what auto does now and what its steps cost; "" before it has measured a step."""
    split = statistics.split
    if not statistics.steps or not split.cost:
        return ""
    if split.tree + split.window <= 1:
        return (
            "Auto: no guesses for now, because they would cost more time than they save. "
            "It tries some from time to time."
        )
    parts = [f"checks {counted(split.tree - 1, 'guess', 'guesses')}"] if split.tree > 1 else []
    if split.window:
        parts.append(f"refines {counted(split.window, 'guess', 'guesses')} for later (the window)")
    return f"Auto: a step {' and '.join(parts)}. It takes as long as {split.cost:.1f} plain steps."


def _origins(history: StepHistory) -> Iterator[dict[str, str]]:
    """Yield the number of tokens of each origin that occurs. The rows are also the legend of the colours."""
    tokens = sum(history.written) or 1
    for origin, count in zip(ORIGINS, history.written, strict=True):
        if count:
            share = count / tokens
            yield {
                "origin": origin,
                "about": ABOUT[origin],
                "share": f"{share:.3f}",
                "count": f"{count:,}",
                "percent": f"{share:.0%}",
            }


def _tiles(numbers: Statistics) -> Iterator[tuple[str, str, str, str]]:
    coverage, rows = f"{numbers.coverage:.0%}", f"{numbers.rows_per_step:.1f}"
    yield "coverage", "Coverage", coverage, "Share of steps that had guesses to check"
    yield (
        "rows-per-step",
        "Rows per step",
        rows,
        "How many positions (rows) of the text each step computed, on average",
    )
    pool = "How many token sequences (n-grams) are stored to guess from"
    yield "pool-size", "Pool size", f"{numbers.pool_size:,}", pool


def _notes(model: ModelInfo | None) -> Iterator[tuple[str, str]]:
    """Yield the id and text of each note: why the model is on the CPU, why it has no CUDA graphs, and so on."""
    if model is None:
        return
    graphs = f"CUDA graphs: {model.note('graphs')}" if model.note("graphs") else ""
    for name, note in (
        ("device-note", model.note("device")),
        ("parts-note", model.note("parts")),
        ("attention-note", model.note("attention")),
        ("same-text-note", model.refusals.get("same-text", "")),
        ("graphs-note", graphs),
        ("fused-note", model.refusals.get("fused", "")),
        ("compiler-note", model.note("compiler")),
        ("heads-note", model.refusals.get("heads", "")),
    ):
        if note:
            yield name, note
