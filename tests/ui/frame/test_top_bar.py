"""The line at the top of the page, and models in words."""

from dataclasses import replace

import pytest

from app.ui.frame.templates import parameters_in_words, problem_html
from app.ui.frame.top_bar import describe, status_html
from app.values.messages import EngineStatus
from tests.fakes import DEMO

READY = EngineStatus("ready", model=DEMO)


def test_what_an_engine_says_is_never_html() -> None:
    assert "<b>" not in status_html(EngineStatus("failed", "No <b>folder</b>."))
    assert "<b>" not in problem_html("No <b>folder</b>.")


def test_no_problem_is_nothing() -> None:
    assert problem_html("") == ""


def test_the_status_line_describes_the_model() -> None:
    assert "demo · 7.3M parameters · float32 · cpu" in status_html(READY)
    assert "Loading demo…" in status_html(EngineStatus("loading", "Loading demo…"))
    assert "Starting…" in status_html(EngineStatus("starting"))


@pytest.mark.parametrize(
    "note", ["device_note", "attention_note", "graphs_note", "fused_note", "compiler_note", "heads_note"]
)
def test_the_status_line_says_where_to_read_what_is_not_used(note: str) -> None:
    model = replace(DEMO, **{note: "triton: it is not installed for this device"})  # type: ignore[arg-type]
    assert "see About for what is not used" in status_html(replace(READY, model=model))
    assert "see About" not in status_html(READY)


def test_layers_and_same_text_are_no_news_where_they_are_used() -> None:
    model = replace(
        DEMO, fused_note="One kernel of our own each: 5 norms.", fused=True, same_text_note="float32"
    )
    assert "see About" not in status_html(replace(READY, model=model))
    for refused in (replace(model, fused=False), replace(model, same_text=False)):
        assert "see About for what is not used" in status_html(replace(READY, model=refused))


def test_a_label_is_told_beside_another_name() -> None:
    assert describe(replace(DEMO, name="foresight-demo")).startswith("foresight-demo (demo) · ")


def test_quantised_weights_are_told_and_how_many_they_are_where_they_are_few() -> None:
    model = replace(DEMO, quantisation="int4", quantised_share=0.99)
    assert describe(model) == "demo · 7.3M parameters · int4 weights · float32 · cpu"
    assert " · int4 for 31% · " in describe(replace(model, quantised_share=0.31))


def test_the_attention_is_told_where_it_is_ours() -> None:
    assert describe(replace(DEMO, attention="triton")).endswith(" · cpu · triton attention")
    assert describe(DEMO).endswith(" · cpu"), "a model that keeps its own"


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (512, "512"),
        (260_000, "260K"),
        (7_300_000, "7.3M"),
        (7_340_000, "7.3M"),
        (134_515_008, "135M"),
        (999_885_952, "1B"),
        (1_720_574_976, "1.7B"),
        (7_000_000_000, "7B"),
        (8_030_261_248, "8B"),
    ],
)
def test_parameters_are_counted_as_models_are_named(count: int, words: str) -> None:
    assert parameters_in_words(count) == f"{words} parameters"
