"""The live numbers: what they say before, during and after a reply."""

import re
from dataclasses import replace
from html import escape
from typing import get_args

import pytest

from app.conversation import ReplyState
from app.ui.live.panel import auto_in_words, hero_number, in_words, panel_html, seconds_in_words
from app.ui.live.step_history import StepHistory, extend
from app.ui.live.tokens import ORIGINS
from app.values.messages import DecoderName, ModelInfo, Split, Statistics
from tests.fakes import DEMO
from tests.ui.live.traces import step_of

NUMBERS = Statistics(
    tokens=46, steps=20, hits=12, covered=15, rows=410, pool_size=1234, time_to_first_token=0.084, seconds=0.5
)


def drawn(numbers: Statistics, decoder: DecoderName = "auto", history: StepHistory = StepHistory()) -> str:  # noqa: B008
    return panel_html(ReplyState(phase="decoding", statistics=numbers), history, decoder, DEMO)


def test_every_number_is_shown() -> None:
    html = drawn(NUMBERS)
    for name, value in {
        "tokens-per-second": "92", "first-token": "84 ms", "hit-rate": "60%",
        "coverage": "75%", "rows-per-step": "20.5", "pool-size": "1,234",
    }.items():  # fmt: skip
        assert f'<dd id="{name}">{value}</dd>' in html
    assert ">2.30</b>" in html


def test_before_the_first_step_there_is_a_sentence_and_no_empty_number_or_chart() -> None:
    html = drawn(Statistics())
    assert "Send a message" in html
    assert not re.search("<dl|<svg|tokens-per-step|by-origin", html)


@pytest.mark.parametrize(
    ("numbers", "decoder", "why"),
    [
        (
            replace(NUMBERS, tokens=20, covered=0),
            "lookahead",
            "there was nothing in this text to make drafts from",
        ),
        (replace(NUMBERS, tokens=20), "lookahead", "the model rejected the drafts in 15 steps"),
        (
            replace(NUMBERS, tokens=20, split=Split(1, 0, 1.0)),
            "auto",
            "checking several tokens at once costs more time than it saves",
        ),
        (replace(NUMBERS, tokens=20, split=Split(8, 0, 1.1)), "auto", "the model rejected the drafts"),
        (replace(NUMBERS, tokens=20), "plain", "exactly one token"),
    ],
)
def test_a_number_that_is_no_gain_gives_way_to_one_sentence_why(
    numbers: Statistics, decoder: DecoderName, why: str
) -> None:
    html = drawn(numbers, decoder)
    assert "tokens-per-step" not in html and html.count('class="in-words"') == 1
    assert why in html


def test_the_number_is_shown_from_what_is_drawn_as_more_than_one() -> None:
    assert hero_number(replace(NUMBERS, tokens=1004, steps=1000)) == ""
    assert hero_number(replace(NUMBERS, tokens=1006, steps=1000)) == "1.01"


def test_the_sentence_says_what_tokens_per_step_means() -> None:
    assert in_words(NUMBERS, "lookahead").startswith("Each forward pass wrote 2.3 tokens on average")


def test_plain_decoding_is_called_plain() -> None:
    assert in_words(replace(NUMBERS, tokens=20), "plain").startswith("Plain decoding")


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (Split(24, 0, 1.084), "Auto: tree of 24 rows. A step costs 1.08x a plain one and writes 2.3 tokens."),
        (
            Split(20, 12, 1.3),
            "Auto: tree of 20 rows and window of 12 rows. A step costs 1.30x a plain one and writes 2.3 tokens.",
        ),
        (Split(1, 12, 1.1), "Auto: window of 12 rows. A step costs 1.10x a plain one and writes 2.3 tokens."),
        (
            Split(1, 0, 1.0),
            "Auto: one row per step for now, because more rows would cost more time than they save. "
            "It tries larger steps from time to time.",
        ),
        (Split(24, 5, 0.0), ""),
    ],
)
def test_auto_says_what_it_does_and_why_it_pays(split: Split, words: str) -> None:
    assert auto_in_words(replace(NUMBERS, split=split)) == words


def test_auto_weighs_a_step_against_what_the_newest_steps_wrote() -> None:
    steps = [step_of(1, "model"), *(step_of(number, *["output"] * 7, "model") for number in range(2, 18))]
    html = drawn(replace(NUMBERS, split=Split(43, 0, 2.95)), history=extend(StepHistory(), steps))
    assert "A step costs 2.95x a plain one and writes 8.0 tokens." in html
    assert "wrote 2.3 tokens on average" in html, "over the whole reply"


def test_auto_says_nothing_before_its_first_step() -> None:
    assert auto_in_words(Statistics(split=Split(24, 0, 1.1))) == ""


@pytest.mark.parametrize("decoder", get_args(DecoderName))
def test_only_auto_explains_itself(decoder: DecoderName) -> None:
    html = drawn(replace(NUMBERS, split=Split(24, 0, 1.08)), decoder)
    assert ("step costs 1.08x" in html) == (decoder == "auto")
    assert ("Plain decoding" in html) == (decoder == "plain")


@pytest.mark.parametrize(
    ("name", "told", "model", "untold"),
    [
        ("lookahead-note", "a & b", DEMO.with_note("lookahead", "a & b"), DEMO),
        ("lookahead-note", "a & b", DEMO.with_note("chains", "a & b"), DEMO),
        ("device-note", "a & b", DEMO.with_note("device", "a & b"), DEMO),
        ("compiler-note", "a & b", DEMO.with_note("compiler", "a & b"), DEMO),
        ("graphs-note", "CUDA graphs: a & b", DEMO.with_note("graphs", "a & b"), DEMO),
        (
            "same-text-note",
            "a & b",
            replace(DEMO.with_note("same-text", "a & b"), same_text=False),
            DEMO.with_note("same-text", "a & b"),
        ),
        (
            "heads-note",
            "a & b",
            DEMO.with_note("heads", "a & b"),
            replace(DEMO.with_note("heads", "a & b"), heads=True),
        ),
        (
            "fused-note",
            "a & b",
            DEMO.with_note("fused", "a & b"),
            replace(DEMO.with_note("fused", "a & b"), fused=True),
        ),
    ],
)
def test_what_a_model_does_not_use_is_told_with_the_reason(
    name: str, told: str, model: ModelInfo, untold: ModelInfo
) -> None:
    html = panel_html(ReplyState(), StepHistory(), "auto", model)
    assert re.findall(r'id="([a-z-]+-note)"[^>]*>([^<]*)', html) == [(name, escape(told))]
    assert name not in panel_html(ReplyState(), StepHistory(), "auto", untold)


def test_nothing_in_the_panel_is_announced_while_it_moves() -> None:
    html = drawn(NUMBERS)
    assert 'aria-live="off"' in html
    assert 'role="status"' not in html


def test_the_panel_stays_small_however_long_the_reply() -> None:
    piece = ("successor", "window", "prompt", "output", "model")
    steps = [step_of(number, *piece) for number in range(1, 400)]
    assert len(drawn(NUMBERS, history=extend(StepHistory(), steps))) < 12_000


def test_short_times_are_in_milliseconds() -> None:
    assert [seconds_in_words(seconds) for seconds in (0.0841, 1.25)] == ["84 ms", "1.2 s"]


def test_tokens_are_counted_by_origin_and_every_origin_is_listed() -> None:
    steps = [step_of(1, "window", "window", "model"), step_of(2, "model"), step_of(3, "prompt", "model")]
    html = drawn(NUMBERS, history=extend(StepHistory(), steps))
    listed = html.partition('<ul class="by-origin">')[2].partition("</ul>")[0]
    assert listed.count("<li ") == len(ORIGINS)
    assert "<span>window</span>" in listed
    assert "<b>2</b><em>33%</em>" in listed
    assert listed.count('class="none">0') == len(ORIGINS) - 3
