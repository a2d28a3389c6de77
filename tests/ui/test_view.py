"""Every state of the page, without a page."""

from dataclasses import replace

import pytest

from app.conversation import ReplyState
from app.messages import DecoderName, EngineStatus, Finished, ModelInfo, Statistics, StopReason
from app.ui.chatbot_format import chatbot_messages
from app.ui.live_panel import Trail
from app.ui.view import (
    Screen,
    describe,
    live_markdown,
    note_html,
    parameters_in_words,
    screen,
    status_html,
)
from tests.fakes import DEMO

READY = EngineStatus("ready", model=DEMO)
NUMBERS = Statistics(tokens=46, steps=20, time_to_first_token=0.05, seconds=0.5)


def finished(reason: StopReason, numbers: Statistics = NUMBERS) -> ReplyState:
    end = Finished(reason, numbers, DEMO, "lookahead")
    return ReplyState(phase="finished", text="done", statistics=numbers, finished=end)


def drawn(
    *turns: tuple[str, ReplyState], asked: DecoderName = "auto", status: EngineStatus = READY
) -> Screen:
    earlier = tuple(chatbot_messages(turns[:-1]))
    return screen(earlier, turns[-1:], Trail(), asked, status)


def test_an_empty_chat_is_empty_and_at_rest() -> None:
    page = drawn()
    assert page.is_empty
    assert not page.is_busy
    assert (page.chat, page.live, page.note) == ((), "", "")


def test_a_reply_under_way_is_live_and_not_yet_in_the_chat() -> None:
    page = drawn(("hi", ReplyState(phase="decoding", text="Hel")))
    assert page.is_busy
    assert [message["role"] for message in page.chat] == ["user"]
    assert page.live.strip() == "Hel"


def test_a_finished_reply_moves_into_the_chat() -> None:
    page = drawn(("hi", finished("eos")))
    assert not page.is_busy
    assert page.live == ""
    assert page.chat[-1]["content"][0]["text"] == "done"


def test_live_text_keeps_its_indentation_through_gradio() -> None:
    import gradio as gr

    text = "a\n    b\n    c"
    shown = gr.Markdown().postprocess(live_markdown(ReplyState(phase="decoding", text=text)))
    assert shown == text


def test_waiting_says_for_what() -> None:
    assert "Waiting for the model" in note_html(ReplyState())
    loading = note_html(ReplyState(phase="loading", note="Loading demo", progress=(3, 14)))
    assert "Loading demo" in loading
    assert 'value="3" max="14"' in loading
    assert "300 of 1,000 tokens" in note_html(ReplyState(phase="prefilling", progress=(300, 1000)))


@pytest.mark.parametrize(
    ("reason", "words"),
    [("stopped", "Stopped"), ("max_tokens", "limit of max tokens"), ("context", "context ends")],
)
def test_a_reply_that_was_cut_says_so(reason: StopReason, words: str) -> None:
    assert words in note_html(finished(reason))


def test_the_note_of_a_reply_tells_its_numbers_and_its_decoder() -> None:
    note = note_html(finished("eos"))
    assert "46 tokens in 20 steps · 92 tokens/s · first token after 50 ms · lookahead" in note


def test_the_panel_calls_a_reply_plain_by_how_it_was_asked_for_not_by_the_switch() -> None:
    asked_plain = drawn(("hi", ReplyState(phase="decoding", statistics=NUMBERS)), asked="plain")
    assert "Plain decoding" in asked_plain.panel
    assert "Plain decoding" not in drawn(("hi", finished("eos")), asked="plain").panel


def test_a_model_without_lookahead_is_plain_whatever_was_asked() -> None:
    status = replace(READY, model=replace(DEMO, lookahead_note="Its cache cannot be compacted."))
    page = drawn(("hi", ReplyState(phase="decoding", statistics=NUMBERS)), status=status)
    assert "Plain decoding" in page.panel
    assert "cannot be compacted" in page.panel


def test_what_an_engine_says_is_never_html() -> None:
    assert "<b>" not in status_html(EngineStatus("failed", "No <b>folder</b>."))
    assert "<b>" not in note_html(ReplyState(phase="loading", note="<b>"))


def test_the_status_line_describes_the_model() -> None:
    assert "demo · 7.3M parameters · float32 · cpu" in status_html(READY)
    assert "Loading demo…" in status_html(EngineStatus("loading", "Loading demo…"))
    assert "Starting…" in status_html(EngineStatus("starting"))


def test_a_label_is_told_beside_another_name() -> None:
    model: ModelInfo = replace(DEMO, name="foresight-demo")
    assert describe(model).startswith("foresight-demo (demo) · ")


def test_quantised_weights_are_told_and_how_many_they_are_where_they_are_few() -> None:
    model = replace(DEMO, quantisation="int4", quantised_share=0.99)
    assert describe(model) == "demo · 7.3M parameters · int4 weights · float32 · cpu"
    assert " · int4 for 31% · " in describe(replace(model, quantised_share=0.31))


def test_the_attention_is_told_where_it_is_ours() -> None:
    assert describe(replace(DEMO, attention="triton")).endswith(" · cpu · triton attention")
    assert describe(DEMO).endswith(" · cpu"), "a model that keeps its own"


def test_parameters_are_counted_in_words() -> None:
    counts = (512, 260_000, 7_340_000, 7_000_000_000)
    assert [parameters_in_words(count).split()[0] for count in counts] == ["512", "260K", "7.3M", "7B"]
