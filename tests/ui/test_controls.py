"""The controls mean what they show, and impossible values get a sentence."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from app.errors import BadOption
from app.messages import DecoderName, Decoding, ModelChoice, Options, Sampling
from app.ui.controls import read_model, read_options, show_options

CHOSEN = Options(
    sampling=Sampling(0.7, top_k=40, top_p=0.9, min_p=0.05, repetition_penalty=1.1, seed=12),
    decoding=Decoding("plain", window=7, ngram=5, guesses=9),
    max_new_tokens=77,
    stop=("END",),
)


@pytest.mark.parametrize(
    "options",
    [
        CHOSEN,
        *(Options(decoding=Decoding(name, rows=24, same_text=False)) for name in get_args(DecoderName)),
        Options(),
    ],
)
def test_what_is_shown_reads_back_the_same(options: Options) -> None:
    assert read_options(show_options(options), options) == options


def test_switched_on_again_auto_decides() -> None:
    off = show_options(Options(decoding=Decoding("plain")))
    assert read_options(off._replace(lookahead=True), Options()).decoding.decoder == "auto"


def test_a_chosen_decoder_is_used_while_the_switch_is_on() -> None:
    chosen = show_options(Options())._replace(decoder="jacobi")
    assert read_options(chosen, Options()).decoding.decoder == "jacobi"
    assert read_options(chosen._replace(lookahead=False), Options()).decoding.decoder == "plain"


def test_what_has_no_control_is_kept() -> None:
    assert read_options(show_options(Options()), CHOSEN).stop == ("END",)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("max_new_tokens", 0, "Max new tokens must be at least 1, got 0."),
        ("window", -1, "Window must be from 0 (off) to 128, got -1."),
        ("ngram", 1, "Ngram must be from 2 to 16, got 1."),
        ("guesses", 999, "Guesses must be from 0 (off) to 128, got 999."),
        ("rows", 999, "Rows must be from 0 (auto) to 256, got 999."),
        ("rows", None, "The box for rows is empty: type a number."),
        ("temperature", -0.5, "Temperature must be from 0 to 100, got -0.5."),
        ("top_p", 0, "Top-p must be above 0 and at most 1, got 0.0."),
        ("seed", None, "The box for seed is empty: type a number."),
        ("seed", 1.5, "This box takes a whole number, got 1.5."),
    ],
)
def test_an_impossible_value_gets_one_sentence(name: str, value: Any, sentence: str) -> None:
    controls = show_options(Options())._replace(**{name: value})
    with pytest.raises(BadOption) as caught:
        read_options(controls, Options())
    assert str(caught.value) == sentence


def test_a_browsers_numbers_may_be_whole_or_not() -> None:
    controls = show_options(Options())._replace(temperature=1, max_new_tokens=32.0)  # type: ignore[arg-type]
    options = read_options(controls, Options())
    assert options == replace(options, max_new_tokens=32, sampling=Sampling(temperature=1.0))


def test_an_empty_model_box_says_what_to_type() -> None:
    with pytest.raises(BadOption, match='type "demo", a folder, or a hub id'):
        read_model("  ", "auto", "auto", "none", "auto")


def test_a_model_is_read_without_the_blanks_around_it() -> None:
    assert read_model(" org/model ", "float32", "cpu", "int4", "sdpa") == ModelChoice(
        "org/model", "float32", "cpu", "int4", "sdpa"
    )


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(BadOption, match="Dtype must be one of"):
        read_model("demo", "int3", "auto", "none", "auto")
