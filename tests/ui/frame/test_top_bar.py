"""The line at the top of the page, and models in words."""

from dataclasses import replace

from app.ui.frame.templates import problem_html
from app.ui.frame.top_bar import describe, status_html
from app.values.messages import EngineStatus
from tests.fakes import DEMO

READY = EngineStatus("ready", model=DEMO)


def test_what_an_engine_says_is_never_html() -> None:
    assert "<b>" not in status_html(EngineStatus("failed", "No <b>folder</b>."))
    assert "<b>" not in problem_html("No <b>folder</b>.")


def test_the_status_line_has_the_short_name_and_its_tooltip_the_rest() -> None:
    assert "<span>demo</span>" in status_html(READY)
    assert 'title="demo · 7.3M parameters · float32 · cpu"' in status_html(READY)
    assert "<span>Qwen3-0.6B</span>" in status_html(
        replace(READY, model=replace(DEMO, name="Qwen/Qwen3-0.6B"))
    )
    remote = replace(DEMO, name="org/far-away", server="https://there")
    assert "<span>far-away · remote</span>" in status_html(replace(READY, model=remote))
    assert "Loading demo…" in status_html(EngineStatus("loading", "Loading demo…"))
    assert "Starting…" in status_html(EngineStatus("starting"))


def test_a_label_is_told_beside_another_name() -> None:
    assert describe(replace(DEMO, name="foresight-demo")).startswith("foresight-demo (demo) · ")


def test_quantised_weights_are_told_and_how_many_they_are_where_they_are_few() -> None:
    model = replace(DEMO, quantisation="int4", quantised_share=0.99)
    assert describe(model) == "demo · 7.3M parameters · int4 weights · float32 · cpu"
    assert " · int4 for 31% · " in describe(replace(model, quantised_share=0.31))


def test_the_attention_is_told_where_it_is_ours() -> None:
    assert describe(replace(DEMO, attention="triton")).endswith(" · cpu · triton attention")
    assert describe(DEMO).endswith(" · cpu"), "a model that keeps its own"
