"""The live numbers: what they say before, during and after a reply."""

import re
from dataclasses import replace
from html import escape
from typing import get_args

import pytest

from app.conversation import ReplyState
from app.conversation.reply import Phase
from app.ui.live.panel import auto_in_words, panel_html
from app.ui.live.step_history import StepHistory, extend
from app.values.messages import DecoderName, ModelInfo, Split, Statistics
from tests.fakes import DEMO
from tests.ui.live.traces import step_of

NUMBERS = Statistics(
    tokens=46, steps=20, hits=12, covered=15, rows=410, pool_size=1234, time_to_first_token=0.084, seconds=0.5,
    cost=23.0,
)  # fmt: skip


def drawn(
    numbers: Statistics,
    decoder: DecoderName = "auto",
    history: StepHistory = StepHistory(),  # noqa: B008
    phase: Phase = "decoding",
) -> str:
    return panel_html(ReplyState(phase=phase, statistics=numbers), history, decoder, DEMO)


def test_the_saved_time_is_large_and_the_two_numbers_it_comes_from_are_below() -> None:
    html = drawn(NUMBERS)
    shown, _, more = html.partition('class="more"')
    assert '<b id="speed-up">2.0' in shown and "500 ms so far, instead of 1.0 s" in shown
    for name, value in {"tokens-per-step": "2.3", "hit-rate": "60%"}.items():
        assert f'<dd id="{name}">{value}</dd>' in shown
    assert "A step runs the model once." in shown and "a word or a part of one" in shown
    assert "A guess was right in 12 of 20 steps." in shown
    assert "92 tokens per second; the first token came after 84 ms" in shown
    for name, value in {"coverage": "75%", "rows-per-step": "20.5", "pool-size": "1,234"}.items():
        assert f'<dd id="{name}">{value}</dd>' in more and name not in shown


def test_before_the_first_reply_an_example_shows_what_a_good_one_looks_like() -> None:
    html = panel_html(ReplyState(phase="finished"), StepHistory(), "auto", DEMO)
    assert "Example: " in html and 'id="speed-up">2.3' in html and "<polyline" in html
    for decoder, state in (("plain", ReplyState(phase="finished")), ("auto", ReplyState(phase="prefilling"))):
        html = panel_html(state, StepHistory(), decoder, DEMO)  # type: ignore[arg-type]
        assert not re.search("Example: |<dl|<svg", html)


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        (replace(NUMBERS, covered=0, cost=46.0, split=Split(8)), "saved no time here, because there was nothing"),
        (replace(NUMBERS, cost=46.0, split=Split(8)), "no time here, because checking the guesses took as much"),
        (replace(NUMBERS, cost=46.0), "checking several tokens at once costs more time than it saves"),
        (replace(NUMBERS, seconds=1.66, cost=43.79, split=Split(8)), "saved no time here"),
        (replace(NUMBERS, cost=50.0, split=Split(8)), "500 ms instead of 460 ms, because checking the guesses"),
        (replace(NUMBERS, cost=0.0), "How much time lookahead saved is not known"),
    ],
)  # fmt: skip
def test_a_number_that_is_no_gain_gives_way_to_one_sentence_why(numbers: Statistics, why: str) -> None:
    html = drawn(numbers, phase="finished")
    assert "speed-up" not in html and html.count('class="sentence"') == 1
    assert why in html and 'id="hit-rate"' in html


def test_an_edited_reply_has_no_numbers_and_has_begun() -> None:
    assert "There are no numbers about this reply." in drawn(Statistics(), phase="failed")
    assert "The reply has not begun." in drawn(Statistics(), phase="waiting")


def test_a_reply_of_few_tokens_claims_nothing() -> None:
    few = replace(NUMBERS, tokens=15, steps=4, hits=4, covered=4, cost=4.2, split=Split(16))
    html = drawn(few, "auto")
    assert "speed-up" not in html and " instead of " not in html
    assert "15 tokens: too few to tell how much time lookahead saves." in html


def test_a_sentence_that_is_quoted_in_few_steps_has_its_time() -> None:
    quoted = drawn(replace(NUMBERS, tokens=51, steps=6, hits=4, covered=5, cost=8.4))
    assert 'id="speed-up"' in quoted and 'class="sentence"' not in quoted


def test_while_a_reply_is_written_nothing_is_said_about_this_machine() -> None:
    html = drawn(replace(NUMBERS, cost=46.0))
    assert "Lookahead has saved no time so far.<" in html and "this machine" not in html


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (Split(24, 0, 1.084), "Auto: a step checks 23 guesses. It takes as long as 1.1 plain steps."),
        (
            Split(20, 12, 1.3),
            "Auto: a step checks 19 guesses and refines 12 guesses for later (the window). It takes as long as "
            "1.3 plain steps.",
        ),
        (
            Split(1, 12, 1.1),
            "Auto: a step refines 12 guesses for later (the window). It takes as long as 1.1 plain steps.",
        ),
        (
            Split(1, 0, 1.0),
            "Auto: no guesses for now, because they would cost more time than they save. "
            "It tries some from time to time.",
        ),
        (Split(24, 5, 0.0), ""),
    ],
)
def test_auto_says_what_it_does_and_why_it_pays(split: Split, words: str) -> None:
    assert auto_in_words(replace(NUMBERS, split=split)) == words


@pytest.mark.parametrize("decoder", get_args(DecoderName))
def test_only_auto_explains_itself(decoder: DecoderName) -> None:
    html = drawn(replace(NUMBERS, split=Split(24, 0, 1.08)), decoder)
    assert ("as 1.1 plain steps" in html) == (decoder == "auto")
    assert ("Written without lookahead" in html) == (decoder == "plain")


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


def test_tokens_are_counted_by_origin_and_only_origins_that_occur_are_listed() -> None:
    steps = [step_of(1, "window", "window", "model"), step_of(2, "model"), step_of(3, "prompt", "model")]
    html = drawn(NUMBERS, history=extend(StepHistory(), steps))
    listed = html.partition('<ul class="by-origin">')[2].partition("</ul>")[0]
    assert listed.count("<li ") == 3
    assert "<span>window</span>" in listed
    assert "<b>2</b><em>33%</em>" in listed
