"""Replies on standard output, as text or as JSON lines."""

import json

import pytest
from typer.testing import CliRunner

from app.commands.generate import print_replies
from app.commands.prompts import PromptItem, SamplingOverride
from app.errors import ReplyFailed
from app.main import cli
from app.messages import Decoding, Message, ModelChoice, Options
from tests.commands.scripted import ScriptedDecoders
from tests.remote.fake_server import FakeServer, running

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


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["generate", "--model", "org/model", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_server_answers_with_text_or_json() -> None:
    with running(FakeServer(key="sk-1")) as server:
        asked = ("--remote", server.address, "--api-key", "sk-1", "--prompt", "Hi")
        code, out, err = run(*asked)
        assert (code, out) == (0, "Hello there.\n") and "tokens/s, first token after" in err
        found = json.loads(run(*asked, "--json")[1])
        assert (found["text"], found["model"], found["stop_reason"]) == ("Hello there.", "org/model", "eos")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--remote", "http://127.0.0.1:1"), "Can't reach 127.0.0.1:1 (Connection refused)."),
        (("--remote", ""), "Enter the address of a server"),
        (("--api-key", "sk-1"), "The key of --api-key is for --remote: give its address, too."),
        (
            ("--remote", "http://127.0.0.1:1", "--raw"),
            "A server is asked with chat messages: leave out --raw.",
        ),
    ],
)
def test_what_cannot_be_asked_is_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    code, out, err = run("--prompt", "Hi", *arguments)
    assert code != 0 and out.strip() == "" and sentence in err
