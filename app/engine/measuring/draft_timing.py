"""What it costs to ask a draft model, measured when it is loaded."""

from app.engine.drafters.draft_model import LineReader
from app.engine.measuring.step_timing import random_tokens, time_in_turn

SHORT, LONG, BEFORE = 1, 33, 24
"""Rows of the passes that are timed, and tokens before them."""
SECONDS = 0.2
"""About how long they are timed."""


def trial_text(reader: LineReader) -> list[int]:
    """Random tokens, to be read while a clock runs."""
    return random_tokens(reader.vocabulary, min(BEFORE + LONG, reader.context))


def question_seconds(reader: LineReader, warm_up: int = 1) -> tuple[float, float]:
    """What a question takes, and each token more that is read with it."""
    text = trial_text(reader)
    before = min(BEFORE, len(text) - SHORT)
    reader.read(text[:before], 0)
    sizes = [SHORT, len(text) - before]

    def run(place: int) -> None:
        logits = reader.read(text[: before + sizes[place]], before)
        logits.argmax(dim=-1).tolist()  # a device is waited for

    short, long = time_in_turn(run, len(sizes), SECONDS, warm_up=warm_up)
    reader.forget()
    return short, max(long - short, 0.0) / max(sizes[1] - sizes[0], 1)
