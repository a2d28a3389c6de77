"""Replies on standard output, as text or as JSON lines."""

import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from app.commands import services
from app.commands.generate import print_replies
from app.commands.prompts import PromptItem, SamplingOverride
from app.errors import BadOption, ReplyFailed
from app.main import cli
from app.settings import assets_dir
from app.system.shutdown import SECONDS
from app.values.messages import Decoding, Message, ModelChoice, Options
from tests.commands.scripted import ScriptedDecoders

MODEL = ModelChoice("demo")


def test_text_goes_to_standard_output_and_numbers_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_replies(ScriptedDecoders(), MODEL, [PromptItem("Once")], Options(), as_json=False)
    out, err = capsys.readouterr()
    assert out == " 0 1 2 3 4 5 6\n"
    assert err.startswith(
        "[auto: 2.00 tokens per step, 100.0 tokens/s, guesses in 67% of steps, right ones in 67%, "
    )
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


def test_a_failure_is_told_before_an_engine_that_may_not_close_in_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class SlowEngine:
        def close(self, timeout: float) -> None:
            assert timeout < SECONDS, "the process would end during the wait, with a code of its own"
            assert capsys.readouterr().err == "Error: The model is gone.\n"

    monkeypatch.setattr(services, "make_engine", lambda *_: SlowEngine())
    with pytest.raises(typer.Exit) as ended, services.engine_in(tmp_path):
        raise BadOption("The model is gone.")
    assert ended.value.exit_code == 2


@pytest.mark.parametrize(
    ("draft_model", "sentence"),
    [
        ("/nowhere/at/all", "The folder /nowhere/at/all does not exist: check the path."),
        (" ", "Draft model must be a folder or a hub id; it is"),
    ],
)
def test_a_draft_model_that_is_not_there_is_one_sentence(draft_model: str, sentence: str) -> None:
    result = CliRunner().invoke(cli, ["generate", "--prompt", "Once", "--draft-model", draft_model])
    assert result.exit_code != 0
    assert sentence in result.output
    assert "Traceback" not in result.output


def test_json_tells_the_draft_model_and_who_proposed_each_token(tmp_path: Path) -> None:
    shutil.copytree(assets_dir() / "demo-model", tmp_path / "twin")
    options = ["--max-new-tokens", "8", "--rows", "8", "--dtype", "float32", "--json", "--draft-model"]
    result = CliRunner().invoke(cli, ["generate", "--prompt", "Once upon", *options, str(tmp_path / "twin")])
    reply = json.loads(result.stdout.splitlines()[-1])
    assert reply["draft_model"] == "twin"
    assert reply["sources"]["draft"] > 0
    assert sum(reply["sources"].values()) == len(reply["token_ids"]) == 8
