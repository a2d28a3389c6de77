"""The line at the top of the page, and models in words."""

from dataclasses import replace

import pytest

from app.ui.frame.templates import problem_html
from app.ui.frame.top_bar import describe, status_html
from app.values.messages import EngineStatus, NoteName
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


@pytest.mark.parametrize("note", ["device", "attention", "graphs", "fused", "compiler", "heads"])
def test_the_status_line_says_where_to_read_what_is_not_used(note: NoteName) -> None:
    model = DEMO.with_note(note, "triton: it is not installed for this device")
    assert "see Settings → About for features that are off" in status_html(replace(READY, model=model))
    assert "see About" not in status_html(READY)


def test_layers_and_same_text_are_no_news_where_they_are_used() -> None:
    notes = {"fused": "Each of these runs as one kernel of our own: 5 norms.", "same-text": "float32"}
    model = replace(DEMO, fused=True, notes=notes)
    assert "see About" not in status_html(replace(READY, model=model))
    for refused in (replace(model, fused=False), replace(model, same_text=False)):
        assert "see Settings → About for features that are off" in status_html(replace(READY, model=refused))


def test_a_label_is_told_beside_another_name() -> None:
    assert describe(replace(DEMO, name="foresight-demo")).startswith("foresight-demo (demo) · ")


def test_quantised_weights_are_told_and_how_many_they_are_where_they_are_few() -> None:
    model = replace(DEMO, quantisation="int4", quantised_share=0.99)
    assert describe(model) == "demo · 7.3M parameters · int4 weights · float32 · cpu"
    assert " · int4 for 31% · " in describe(replace(model, quantised_share=0.31))


def test_the_attention_is_told_where_it_is_ours() -> None:
    assert describe(replace(DEMO, attention="triton")).endswith(" · cpu · triton attention")
    assert describe(DEMO).endswith(" · cpu"), "a model that keeps its own"
