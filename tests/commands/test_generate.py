"""Replies on standard output, as text or as JSON lines."""

import json

import pytest

from app.commands.generate import print_replies
from app.commands.prompts import PromptItem, SamplingOverride
from app.errors import ReplyFailed
from app.messages import Decoding, Message, ModelChoice, Options
from tests.commands.scripted import ScriptedDecoders

MODEL = ModelChoice("demo")


def test_text_goes_to_standard_output_and_numbers_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_replies(ScriptedDecoders(), MODEL, [PromptItem("Once")], Options(), as_json=False)
    out, err = capsys.readouterr()
    assert out == " 0 1 2 3 4 5 6\n"
    assert err.startswith("[auto: 2.00 tokens per step, 100.0 tokens/s, hit rate 67%, coverage 67%, ")
    assert err.endswith("first token after 0.50 s]\n")


def test_json_is_one_object_a_line_for_each_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    engine = ScriptedDecoders()
    prompts = [PromptItem("Once"), PromptItem((Message("user", "Hello"),), SamplingOverride(0.5, 3))]
    print_replies(engine, MODEL, prompts, Options(decoding=Decoding("plain")), as_json=True)
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["decoder"] for line in lines] == ["plain", "plain"]
    assert [line["token_ids"] for line in lines] == [[0, 1, 2, 3, 4, 5, 6]] * 2
    assert [request.prompt for request in engine.requests] == [item.prompt for item in prompts]
    assert [(line["temperature"], line["seed"]) for line in lines] == [(0.0, 0), (0.5, 3)]
    assert err == ""


def test_a_failure_ends_it_and_what_was_written_stays(capsys: pytest.CaptureFixture[str]) -> None:
    engine = ScriptedDecoders(failure="Memory ran out: close other programs.")
    with pytest.raises(ReplyFailed):
        print_replies(engine, MODEL, [PromptItem("One"), PromptItem("Two")], Options(), as_json=False)
    assert capsys.readouterr().out.startswith(" 0 1 2 3 4 5 6")
    assert len(engine.requests) == 1
