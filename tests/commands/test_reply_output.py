"""One request from the command line, with a scripted engine."""

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest

from app.commands import reply_output
from app.commands.reply_output import events_with_progress, finished_reply, thinking_note, wait_for_load
from app.errors import ReplyFailed
from app.values.chat_format import ChatFormat, Thinking, ThinkingLevel, ThinkingMode
from app.values.messages import (
    Decoding,
    EngineStatus,
    Finished,
    ModelChoice,
    Options,
    Piece,
    Request,
    Sampling,
)
from tests.commands.scripted import ScriptedDecoders

REQUEST = Request(ModelChoice("demo"), "Once", Options(sampling=Sampling(seed=5)))
ORDER = """
    text token_ids steps tokens_per_step hit_rate coverage rows_per_step tokens_per_second
    time_to_first_token decoder seed model dtype device devices quantisation bits_per_weight draft_model
    sources attention graphs device_note lookahead_note chains_note attention_note graphs_note fused_note
    same_text_note compiler_note heads_note template_note parts_note quantised_note stop_reason temperature
    thinking decoding
"""
FIELDS = ORDER.split()


def test_the_outcome_is_the_whole_text_with_all_its_tokens() -> None:
    result = finished_reply(REQUEST, list(events_with_progress(ScriptedDecoders(), REQUEST)))
    assert (result.text, result.token_ids) == (" 0 1 2 3 4 5 6", (0, 1, 2, 3, 4, 5, 6))


def test_the_json_of_an_outcome_has_the_promised_fields() -> None:
    json = finished_reply(REQUEST, list(events_with_progress(ScriptedDecoders(), REQUEST))).to_json()
    assert list(json) == FIELDS
    assert (json["steps"], json["tokens_per_step"], json["hit_rate"]) == (3, 2.0, 2 / 3)
    assert (json["decoder"], json["seed"], json["stop_reason"]) == ("auto", 5, "max_tokens")
    assert (json["model"], json["dtype"], json["device"]) == ("demo", "float32", "cpu")
    assert json["time_to_first_token"] == 0.5
    assert json["draft_model"] == "" and sum(json["sources"].values()) == len(json["token_ids"])
    assert json["decoding"] == {
        "decoder": "auto", "window": 5, "ngram": 4, "guesses": 5, "rows": 0, "same_text": True,
    }  # fmt: skip


def test_a_level_of_thinking_that_the_model_does_not_have_is_told() -> None:
    def note(level: ThinkingLevel, *levels: ThinkingLevel) -> str:
        request = replace(REQUEST, options=Options(thinking=Thinking(level)))
        reply = finished_reply(request, list(events_with_progress(ScriptedDecoders(), request)))
        chat_format = ChatFormat(modes=tuple(map(ThinkingMode, levels)))
        model = replace(reply.finished.model, chat_format=chat_format)
        return thinking_note(replace(reply, finished=replace(reply.finished, model=model)))

    assert note("default") == note("off", "on", "off") == ""
    assert note("off") == "[--thinking off changes nothing: demo has no levels to choose from.]"
    assert note("max", "on", "off") == "[demo thinks at the levels on, off: it used on for --thinking max.]"


def test_a_failed_reply_raises_the_engines_own_sentence() -> None:
    engine = ScriptedDecoders(failure="Memory ran out: close other programs.")
    with pytest.raises(ReplyFailed, match=r"^Memory ran out: close other programs\.$"):
        list(events_with_progress(engine, REQUEST))


def test_leaving_early_stops_the_reply() -> None:
    engine = ScriptedDecoders()
    events = events_with_progress(engine, REQUEST)
    for event in events:
        if isinstance(event, Piece):
            break
    events.close()  # type: ignore[attr-defined]
    assert engine.replies[0].is_stopping


def test_a_reply_without_an_end_has_no_outcome() -> None:
    events = list(events_with_progress(ScriptedDecoders(), REQUEST))
    assert isinstance(events[-1], Finished)
    with pytest.raises(ValueError, match="a reply ends with Finished, not Piece"):
        finished_reply(Request(ModelChoice("demo"), "Once", Options(decoding=Decoding("plain"))), events[:-1])


def test_a_load_is_followed_by_the_names_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bar:
        steps: ClassVar[list[str]] = []
        live = SimpleNamespace(is_started=False)

        def add_task(self, _description: str, **_total: object) -> int:
            return 0

        def start(self) -> None:
            pass

        def update(self, _task: int, description: str) -> None:
            self.steps.append(description)

    monkeypatch.setattr(reply_output, "progress_bar", Bar)
    loaded, left = Future[bool](), ["Measuring", "Trying kernels", "Reading demo"]

    def status() -> EngineStatus:
        step = left.pop()
        if not left:
            loaded.set_result(True)
        return EngineStatus("loading", step)

    assert wait_for_load(status, loaded)
    assert Bar.steps == ["Reading demo", "Trying kernels", "Measuring"]
