"""A benchmark that was stopped goes on: what was measured is read from its folder."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.commands.bench import Asked, run_bench
from app.commands.bench_report import BenchFiles
from app.commands.bench_runs import RUNS_FILE, BenchRun, Contestant, RunLog
from app.commands.prompts import PromptItem, PromptSet
from app.conversation import Reply
from app.conversation.race.decoder_comparison import WARM_UP_TOKENS, Lane
from app.errors import BadOption, ReplyFailed
from app.values.messages import Decoding, Message, ModelChoice, Options, Request
from tests.commands.scripted import ScriptedDecoders

RUN = BenchRun((1, 2, 3), 2, 1, 0.5, 8, 1, "one two")
CHATS = PromptSet(
    "chats", tuple(PromptItem((Message("user", text),), later_turns=("And then?",)) for text in "abc")
)
ASKED = Asked(
    ModelChoice("demo"),
    (CHATS,),
    (Lane("plain", Decoding("plain")), Lane("lookahead", Decoding("lookahead"))),
    Options(max_new_tokens=100),
    1,
)


class StoppedAfter(ScriptedDecoders):
    """Fails at the reply behind so many."""

    def __init__(self, replies: int) -> None:
        super().__init__()
        self._left = replies

    def submit(self, request: Request, reply: Reply) -> None:
        if request.options.max_new_tokens > WARM_UP_TOKENS:
            self._left -= 1
            if self._left < 0:
                raise ReplyFailed("Stopped.")
        super().submit(request, reply)


def measured_replies(engine: ScriptedDecoders) -> int:
    return sum(request.options.max_new_tokens > WARM_UP_TOKENS for request in engine.requests)


def report(folder: Path) -> object:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))["decoders"]


def test_a_stopped_benchmark_goes_on_and_ends_with_the_same_numbers(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run_bench(ScriptedDecoders(), ASKED, BenchFiles(folder=whole))
    with pytest.raises(ReplyFailed):
        run_bench(StoppedAfter(7), ASKED, BenchFiles(folder=parts))
    assert len(RunLog(parts)) == 7
    second = ScriptedDecoders()
    run_bench(second, ASKED, BenchFiles(folder=parts))
    assert measured_replies(second) == 12 - 7
    assert report(parts) == report(whole)


def test_what_is_asked_differently_is_measured_anew(tmp_path: Path) -> None:
    run_bench(ScriptedDecoders(), ASKED, BenchFiles(folder=tmp_path))
    for other, new in (
        (ASKED, 0),
        (replace(ASKED, rounds=2), 12),
        (replace(ASKED, model=ModelChoice("other")), 12),
        (replace(ASKED, options=Options(max_new_tokens=99)), 12),
        (replace(ASKED, sets=(replace(CHATS, prompts=CHATS.prompts[:1]),)), 0),
    ):
        engine = ScriptedDecoders()
        run_bench(engine, other, BenchFiles(folder=tmp_path))
        assert measured_replies(engine) == new


def test_the_last_line_of_a_killed_process_is_dropped(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.add("one", RUN)
    log.add("two", RUN)
    file = tmp_path / RUNS_FILE
    file.write_bytes(file.read_bytes()[:-9])
    again = RunLog(tmp_path)
    assert (again.find("one"), again.find("two")) == (RUN, None)
    again.add("two", RUN)
    assert RunLog(tmp_path).find("two") == RUN


@pytest.mark.parametrize("line", ["{}", "[]", "words", '{"key": "k", "token_ids": [1], "colour": 2}'])
def test_a_file_of_another_kind_is_refused_and_left_as_it_is(tmp_path: Path, line: str) -> None:
    file = tmp_path / RUNS_FILE
    file.write_text(line + "\n")
    with pytest.raises(BadOption, match=r"line 1 is not a run of a benchmark\. Choose another folder"):
        RunLog(tmp_path)
    assert file.read_text() == line + "\n"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match=r"cannot be used \(.*\)\. Choose another folder\."):
        RunLog(tmp_path / "file" / "below")


def test_a_run_of_one_pass_has_no_speed() -> None:
    assert BenchRun((1,), 0, 0, 0.0).tokens_per_second == 0
    assert RUN.tokens_per_second == 4


def test_contestants_of_different_settings_have_different_keys() -> None:
    one = Contestant("auto", "float32", lambda *_: RUN)
    keys = {each.key("a", "prompt", Options()) for each in (one, replace(one, settings="int8"))}
    assert len(keys) == 2
