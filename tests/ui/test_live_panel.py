"""The live numbers: what they say before, during and after a reply."""

from dataclasses import replace
from typing import get_args

import pytest

from app.conversation import ReplyState
from app.messages import DecoderName, Origin, Piece, Split, Statistics
from app.settings import assets_dir
from app.ui.live_panel import (
    ORIGINS,
    STRIP_HEIGHT,
    STRIP_STEPS,
    Trail,
    auto_in_words,
    extend,
    in_words,
    panel,
    seconds_in_words,
)
from tests.fakes import DEMO, PLAIN_STEP

NUMBERS = Statistics(
    tokens=46, steps=20, hits=12, covered=15, rows=410, pool_size=1234, time_to_first_token=0.084, seconds=0.5
)


def piece(step: int, *origins: str) -> Piece:
    return Piece("x", (0,), origins, Statistics(steps=step))  # type: ignore[arg-type]


def drawn(numbers: Statistics, decoder: DecoderName = "auto", trail: Trail = Trail()) -> str:  # noqa: B008
    return panel(ReplyState(phase="decoding", statistics=numbers), trail, decoder, DEMO)


def test_every_number_is_shown() -> None:
    html = drawn(NUMBERS)
    for name, value in {
        "tokens-per-second": "92", "first-token": "84 ms", "hit-rate": "60%",
        "coverage": "75%", "rows-per-step": "20.5", "pool-size": "1,234",
    }.items():  # fmt: skip
        assert f'<dd id="{name}">{value}</dd>' in html
    assert ">2.30</b>" in html


def test_unknown_numbers_are_not_zeros() -> None:
    html = drawn(Statistics())
    assert ">0" not in html
    assert html.count("—</dd>") == 6


def test_the_sentence_says_what_tokens_per_step_means() -> None:
    assert in_words(NUMBERS, "lookahead").startswith("Each forward pass wrote 2.3 tokens on average")


def test_plain_decoding_is_called_plain() -> None:
    assert in_words(replace(NUMBERS, tokens=20), "plain").startswith("Plain decoding")


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (Split(24, 0, 1.084), "Auto: tree of 24 rows, step costs 1.08x, 2.3 tokens per step."),
        (
            Split(20, 12, 1.3),
            "Auto: tree of 20 rows and window of 12 rows, step costs 1.30x, 2.3 tokens per step.",
        ),
        (Split(1, 12, 1.1), "Auto: window of 12 rows, step costs 1.10x, 2.3 tokens per step."),
        (Split(1, 0, 1.0), "Auto: one row, since more would cost more than they bring here."),
        (Split(24, 5, 0.0), ""),
    ],
)
def test_auto_says_what_it_does_and_why_it_pays(split: Split, words: str) -> None:
    assert auto_in_words(replace(NUMBERS, split=split)) == words


def test_auto_says_nothing_before_its_first_step() -> None:
    assert auto_in_words(Statistics(split=Split(24, 0, 1.1))) == ""


@pytest.mark.parametrize("decoder", get_args(DecoderName))
def test_only_auto_explains_itself(decoder: DecoderName) -> None:
    html = drawn(replace(NUMBERS, split=Split(24, 0, 1.08)), decoder)
    assert ("step costs 1.08x" in html) == (decoder == "auto")
    assert ("Plain decoding" in html) == (decoder == "plain")


def test_a_model_that_decodes_plainly_says_why() -> None:
    model = replace(DEMO, lookahead_note="Its state cannot be rewound & compacted.")
    assert "rewound &amp; compacted" in panel(ReplyState(), Trail(), "auto", model)


def test_what_was_found_about_same_text_is_said() -> None:
    model = replace(DEMO, same_text_note="Steps of 16 & 32 rows write the same text.")
    html = panel(ReplyState(), Trail(), "auto", model)
    assert "Steps of 16 &amp; 32 rows write the same text." in html
    assert "lookahead-note" not in html


def test_why_steps_are_no_graphs_is_said() -> None:
    model = replace(DEMO, graphs_note="its steps cannot be recorded (a & b)")
    html = panel(ReplyState(), Trail(), "auto", model)
    assert "CUDA graphs: its steps cannot be recorded (a &amp; b)" in html
    assert "graphs-note" not in panel(ReplyState(), Trail(), "auto", DEMO)


def test_the_strip_has_a_bar_per_step_and_a_box_per_token() -> None:
    trail = extend(Trail(), [piece(1, "window", "window", "model"), piece(2, "model")])
    html = drawn(NUMBERS, trail=trail)
    assert html.count("<rect") == 4
    assert html.count('class="window" x="0"') == 2
    assert "Tokens of the last 2 steps" in html


def test_every_origin_has_a_word_and_a_colour() -> None:
    css = (assets_dir() / "ui" / "foresight.css").read_text(encoding="utf-8")
    assert set(ORIGINS) == set(get_args(Origin))
    for origin in ORIGINS:
        assert f".strip .{origin} " in css
        assert f".legend .{origin}::before" in css


def test_the_prefills_first_token_leaves_no_bar() -> None:
    assert extend(Trail(), [piece(0, "model")]).steps == ()


def test_a_trail_grows_the_same_in_one_go_or_in_two() -> None:
    events = [piece(step, *PLAIN_STEP) for step in range(1, 10)]
    assert extend(extend(Trail(), events[:4]), events[4:]) == extend(Trail(), events)


def test_the_strip_forgets_old_steps() -> None:
    events = [piece(step, "model") for step in range(1, 3 * STRIP_STEPS)]
    assert len(extend(Trail(), events).steps) == STRIP_STEPS


def test_a_very_long_step_stays_inside_the_strip() -> None:
    html = drawn(NUMBERS, trail=Trail((("output",) * 40,), 1))
    tops = [float(part.split('"')[0]) for part in html.split(' y="')[1:]]
    assert min(tops) >= 0
    assert max(tops) < STRIP_HEIGHT


def test_short_times_are_in_milliseconds() -> None:
    assert [seconds_in_words(seconds) for seconds in (0.0841, 1.25)] == ["84 ms", "1.2 s"]
