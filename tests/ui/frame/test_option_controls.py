"""The option controls and their values; what is changed is saved, and what is wrong is shown beside them."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, get_args

import gradio as gr
import pytest

from app.ui import Services
from app.ui.frame.option_controls import (
    OptionActions,
    OptionValues,
    build_lookahead_switch,
    build_option_panel,
    changed_options,
    judged,
    saved_with,
    to_options,
    to_values,
)
from app.ui.frame.services import with_drawn_seed
from app.ui.settings.controls import DecoderControls
from app.values.messages import NEW_SEED, DecoderName, Decoding, Options, Sampling

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
    assert to_options(to_values(options), options) == options


def test_switched_on_again_auto_decides() -> None:
    off = to_values(Options(decoding=Decoding("plain")))
    assert to_options(off._replace(lookahead=True), Options()).decoding.decoder == "auto"


def test_a_chosen_decoder_is_used_while_the_switch_is_on() -> None:
    chosen = to_values(Options())._replace(decoder="jacobi")
    assert to_options(chosen, Options()).decoding.decoder == "jacobi"
    assert to_options(chosen._replace(lookahead=False), Options()).decoding.decoder == "plain"


def test_what_has_no_control_is_kept() -> None:
    assert to_options(to_values(Options()), CHOSEN).stop == ("END",)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("max_new_tokens", -1, "Max new tokens must be 0 (no limit) or more."),
        ("window", -1, "W (window) must be from 0 (off) to 128."),
        ("ngram", 1, "N (n-gram) must be from 2 to 16."),
        ("guesses", 999, "G (guesses) must be from 0 (off) to 128."),
        ("rows", 999, "Rows per step must be from 0 (auto) to 256."),
        ("rows", None, "Type a number."),
        ("temperature", -0.5, "Temperature must be from 0 to 100."),
        ("temperature", "warm", "Type a number."),
        ("temperature", float("nan"), "Temperature must be from 0 to 100."),
        ("top_p", 0, "Top-p must be above 0 and at most 1."),
        ("seed", 1.5, "Type a whole number."),
        ("seed", float("inf"), "Type a whole number."),
        *(
            (name, 2**63, "Type a number up to 9,007,199,254,740,991.")
            for name in ("max_new_tokens", "seed", "top_k")
        ),
    ],
)
def test_an_impossible_value_gets_one_sentence_and_the_last_valid_one_is_used(
    name: str, value: Any, sentence: str
) -> None:
    controls = to_values(Options())._replace(**{name: value})
    assert judged(CHOSEN, controls)[1] == {name: sentence}
    assert getattr(to_values(to_options(controls, CHOSEN)), name) == getattr(to_values(CHOSEN), name)


def test_what_is_wrong_names_the_box_as_its_label_does() -> None:
    with gr.Blocks():
        shown = build_option_panel(Options(), build_lookahead_switch(Options()))
        controls = (*shown, *DecoderControls(to_values(Options())).controls)
    labels = {name: box.label or "" for name, box in zip(OptionValues._fields, controls, strict=True)}
    numbers = {name: -9 for name, box in zip(labels, controls, strict=True) if hasattr(box, "step")}
    faults = changed_options(Options(), numbers)[1]
    assert len(faults) == 11
    for name, sentence in faults.items():
        first_word, _, words = re.sub(r" \(.*", "", labels[name]).partition(": ")
        assert sentence.startswith(f"{first_word} ({words})" if words else first_word), sentence


def test_an_empty_seed_is_a_new_one_each_time() -> None:
    anew = to_options(to_values(CHOSEN)._replace(seed=None), CHOSEN)
    assert to_values(anew).seed is None
    drawn = {with_drawn_seed(anew).sampling.seed for _ in range(5)}
    assert len(drawn) == 5 and all(0 <= seed < 2**63 for seed in drawn)
    cold = replace(anew, sampling=replace(anew.sampling, temperature=0.0))
    assert with_drawn_seed(cold).sampling.seed == 0, "the same text is still known as the same"
    assert with_drawn_seed(CHOSEN) == CHOSEN


def test_a_browsers_numbers_may_be_whole_or_not() -> None:
    controls = to_values(Options())._replace(temperature=1, max_new_tokens=32.0)  # type: ignore[arg-type]
    options = to_options(controls, Options())
    assert options == replace(options, max_new_tokens=32, sampling=Sampling(temperature=1.0))


@pytest.mark.parametrize("typed", [None, 0])
def test_without_a_limit_the_box_is_empty(typed: int | None) -> None:
    unlimited = to_options(to_values(CHOSEN)._replace(max_new_tokens=typed), CHOSEN)
    assert unlimited == replace(CHOSEN, max_new_tokens=0)
    assert to_values(unlimited).max_new_tokens is None


CONTROLS = to_values(Options())
BOXES = CONTROLS._fields


@pytest.fixture
def actions(services: Services) -> OptionActions:
    return OptionActions(services)


def choose(actions: OptionActions, **changed: Any) -> str:
    """Change one control of a page that was filled at the start."""
    [name] = changed
    return unescape(actions.choose_options(saved_with(name), BOXES, *CONTROLS._replace(**changed)))


def test_a_page_remembers_what_was_changed_on_it_and_nothing_else(
    actions: OptionActions, services: Services
) -> None:
    choose(actions, max_new_tokens=2000)
    choose(actions, temperature=0.5)  # on another page, where the box is empty still
    assert services.settings.options.max_new_tokens == 2000
    assert services.settings.options.sampling.temperature == 0.5


def test_the_decoder_that_was_chosen_comes_back_with_its_switch(
    actions: OptionActions, services: Services
) -> None:
    chosen = CONTROLS._replace(decoder="lookahead")
    actions.choose_options(saved_with("decoder"), BOXES, *chosen)
    actions.choose_options(saved_with("lookahead"), BOXES, *chosen._replace(lookahead=False))
    assert services.settings.options.decoding.decoder == "plain"
    actions.choose_options(saved_with("lookahead"), BOXES, *chosen)
    assert services.settings.options.decoding.decoder == "lookahead"


def test_options_are_remembered_or_the_reason_is_shown_beside_them(
    actions: OptionActions, services: Services
) -> None:
    assert '"window": ""' in choose(actions, window=9)
    assert services.settings.options.decoding.window == 9
    assert "W (window) must be" in choose(actions, window=-9)
    assert services.settings.options.decoding.window == 9


def test_an_invalid_box_is_told_and_loses_no_other_change(actions: OptionActions, services: Services) -> None:
    page = CONTROLS._replace(window=999, seed=7)
    assert "W (window) must be" in actions.choose_options(saved_with("window"), BOXES, *page)
    assert "W (window) must be" in actions.choose_options(saved_with("seed"), BOXES, *page), (
        "it is still there"
    )
    assert services.settings.options.sampling.seed == 7
    assert services.settings.options.decoding.window == Options().decoding.window


def test_an_emptied_box_is_told(actions: OptionActions, services: Services) -> None:
    assert '"top_k": "Type a number."' in choose(actions, top_k=None)
    assert '"seed": ""' in choose(actions, seed=None)
    assert services.settings.options.sampling.seed == NEW_SEED


def test_settings_that_cannot_be_saved_are_told_and_hold(
    actions: OptionActions, services: Services, tmp_path: Path
) -> None:
    (tmp_path / "settings.json").mkdir()  # as good as a full disk: the file cannot be replaced
    assert "could not be saved" in choose(actions, guesses=3)
    assert services.settings.options.decoding.guesses == 3
