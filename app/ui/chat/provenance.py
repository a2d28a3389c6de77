"""Renders how a reply was written: a table of the model, the options and the statistics, and coloured tokens.

A token's colour shows who proposed it. Marks are (end, origin, step). Example: the marks (1, model, 0), (4,
output, 1) and (9, output, 1) on "I do know it":

    [I][ do][ know] it     step 1 wrote two tokens; the text after the last mark has no colour
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from markupsafe import Markup

from app.ui.frame.templates import render
from app.ui.live.tokens import ABOUT, ORIGINS
from app.values.chat import Provenance, TokenMark
from app.values.chat_format import Thinking
from app.values.display_text import counted, seconds_in_words
from app.values.messages import DecoderName, Decoding, ModelInfo, Sampling, Statistics, StopReason

REASONS: dict[StopReason, str] = {
    "eos": "the model ended it",
    "stop_string": "reached a stop string",
    "max_tokens": "reached the max-tokens limit",
    "context": "reached the end of the model's context",
    "stopped": "stopped by the user",
}
"""The words for why a reply ended."""

Row = tuple[str, str]


def provenance_html(provenance: Provenance) -> Markup:
    """Return the table as HTML. Rows without a value are left out."""
    return render("provenance.html", rows=[row for row in _rows(provenance) if row[1]])


def _rows(provenance: Provenance) -> Iterator[Row]:
    options = provenance.options
    yield from _model(provenance.model)
    is_remote = bool(provenance.model.server)
    sampling = options.sampling
    if is_remote:  # only these options are sent to a server
        sampling = Sampling(sampling.temperature, top_p=sampling.top_p, seed=sampling.seed)
    yield "Sampling", sampling_in_words(sampling)
    yield "Thinking", thinking_in_words(options.thinking)
    yield "Seed", str(options.sampling.seed)
    yield "Decoder", "" if is_remote else _decoder(provenance.decoder, options.decoding)
    yield from _numbers(provenance.statistics)
    yield "Ended", REASONS[provenance.reason]
    yield "Foresight", provenance.app


def _model(model: ModelInfo) -> Iterator[Row]:
    if model.server:
        yield "Model", f"{model.name} (remote)"
        yield "Server", model.server
        return
    is_labelled = model.label not in ("", model.name)
    yield "Model", f"{model.name} ({model.label})" if is_labelled else model.name
    yield "Revision", model.revision
    if model.draft_model:
        yield "Draft model", model.draft_model
    if model.heads:
        yield "Draft model", "its own head (multi-token prediction)"
    yield "Precision", ", ".join(filter(None, (model.dtype, model.weights)))
    yield "Device", model.device
    yield "Attention", model.attention


def sampling_in_words(sampling: Sampling) -> str:
    """Describe how tokens were drawn: "temperature 0.7, top-p 0.9", or "greedy" for temperature 0."""
    parts = [f"temperature {sampling.temperature:g}"] if sampling.temperature else ["greedy"]
    limits = (("top-k", sampling.top_k, 0), ("top-p", sampling.top_p, 1), ("min-p", sampling.min_p, 0))
    if sampling.temperature:
        parts += [f"{name} {value:g}" for name, value, off in limits if value != off]
    if sampling.repetition_penalty != 1:
        parts.append(f"repetition penalty {sampling.repetition_penalty:g}")
    return ", ".join(parts)


def thinking_in_words(thinking: Thinking) -> str:
    """Describe the chosen level and budget of thinking: "high, at most 500 tokens"; "" for the defaults."""
    level = "" if thinking.level == "default" else thinking.level
    budget = f"at most {thinking.budget:,} tokens" if thinking.budget else ""
    return ", ".join(filter(None, (level, budget)))


def _decoder(decoder: DecoderName, asked: Decoding) -> str:
    """Name the decoder with its sizes, or with the requested decoder if that was another."""
    if decoder != asked.decoder:
        return f"{decoder} (requested: {asked.decoder})"
    if decoder == "lookahead":
        return f"lookahead (window {asked.window}, n-gram {asked.ngram}, guesses {asked.guesses})"
    return f"auto ({asked.rows} rows per step)" if decoder == "auto" and asked.rows else decoder


def _numbers(numbers: Statistics) -> Iterator[Row]:
    reused = (
        f", {numbers.reused_tokens:,} of them kept from before (KV cache)" if numbers.reused_tokens else ""
    )
    yield "Prompt", f"{counted(numbers.prompt_tokens, 'token')}{reused}" if numbers.prompt_tokens else ""
    if numbers.steps:
        yield "Generated", f"{counted(numbers.tokens, 'token')} in {counted(numbers.steps, 'step')}"
        yield "Tokens per step", f"{numbers.tokens_per_step:.2f}"
    if numbers.rows:
        yield "Hit rate", f"{numbers.hit_rate:.0%} of steps had a right guess"
    if not numbers.tokens:
        return
    yield "Tokens/s", f"{numbers.tokens_per_second:,.1f}"
    yield "First token", f"after {seconds_in_words(numbers.time_to_first_token)}"


def coloured_html(text: str, marks: Sequence[TokenMark]) -> Markup:
    """Return the text as it was written, with a span for each token and one around each step, below a legend."""
    steps, start = [], 0
    for _, step in groupby(marks, key=attrgetter("step")):
        tokens = tuple(step)
        if spans := list(_spans(text, start, tokens)):
            steps.append(spans)
        start = tokens[-1].end
    counts = Counter(mark.origin for mark in marks)
    shares = [(one, f"{counts[one] / len(marks):.0%}", ABOUT[one]) for one in ORIGINS if counts[one]]
    return render("token_colours.html", legend=shares, steps=steps, rest=text[start:])


def _spans(text: str, start: int, tokens: Sequence[TokenMark]) -> Iterator[tuple[str, str, str]]:
    """Yield the origin, tooltip and text of each token of a step, except for tokens that end inside a character."""
    for mark in tokens:
        piece, start = text[start : mark.end], max(start, mark.end)
        if piece:
            yield mark.origin, in_words(mark, len(tokens)), piece


def in_words(mark: TokenMark, tokens: int) -> str:
    """Describe how a token was written: "history · step 12 · 4 tokens in one step"."""
    if mark.step == 0:
        return f"{mark.origin} · predicted when the prompt was read"
    together = f"{tokens} tokens in one step" if tokens > 1 else "alone in its step"
    return f"{mark.origin} · step {mark.step:,} · {together}"
