"""The comparison with other implementations: what is counted, and that all are asked the same."""

import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.commands.bench_measurement import BenchRun, Contestant, engine_contestant
from app.conversation.race.decoder_comparison import Lane
from app.engine.loading.loading import LoadedModel
from app.engine.session.session import Session
from app.errors import BadOption
from app.values.messages import Decoding, ModelChoice, ModelFolder, Options
from labs.bench.contestants import SessionEngine, transformers_lanes
from labs.bench.dejavuu_lanes import dejavuu_lanes
from labs.bench.llama_cpp import llama_lanes
from labs.bench.runs import RUNS_FILE, RunLog
from labs.bench.suites import read_suite
from tests.engine.tiny import write_tiny

CHOICE = ModelChoice("tiny", "float32", "cpu")
OPTIONS = "--dtype float32 --max-new-tokens 8 --rounds 1 --decoders plain,lookahead"
SHORT = Options(max_new_tokens=24, ignore_eos=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return ModelFolder(write_tiny(tmp_path_factory.mktemp("tiny")).path, "tiny")


@pytest.fixture(scope="module")
def session(folder: ModelFolder) -> Session:
    return Session(lambda _name, _progress: folder)


@pytest.fixture(scope="module")
def loaded(session: Session) -> LoadedModel:
    return session.open(CHOICE, lambda *_: None)


@pytest.fixture(scope="module")
def contestants(session: Session, loaded: LoadedModel, folder: ModelFolder) -> Sequence[Contestant]:
    lanes = [Lane(name, Decoding(name)) for name in ("plain", "prompt-lookup")]
    ours = [engine_contestant(SessionEngine(session), CHOICE, lane) for lane in lanes]
    return [*ours, *transformers_lanes(loaded, folder, draft_model=folder.path)]


def write(file: Path, *questions: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(question) + "\n" for question in questions))


def test_a_suite_is_measured_once_and_leaves_a_report_a_leaderboard_and_a_picture(
    folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = ({"category": name, "turns": [f"About {name}", "And then?"]} for name in ("coding", "qa"))
    write(tmp_path / "spec-bench" / "dev.jsonl", *questions)
    runs = tmp_path / "runs"
    asked = f"--suite spec-bench --suite-data {tmp_path} --model {folder.path} --output {runs}"
    command = [
        "bench",
        *asked.split(),
        *["--max-new-tokens", "8", "--rounds", "1", "--decoders", "plain,lookahead"],
    ]
    monkeypatch.setenv("FORESIGHT_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "argv", command)
    for _ in range(2):
        runpy.run_module("labs.bench", run_name="__main__")
    assert "8 runs in" in capsys.readouterr().out, "the second time nothing is measured"
    report = json.loads((runs / "report.json").read_text())
    assert [one["set"] for one in report["sets"]] == ["mt-bench", "qa"]
    assert all(one["identical"] for one in report["decoders"])
    assert "| Multi-turn Conversation | Question Answering |" in (runs / "leaderboard.md").read_text()
    assert ElementTree.parse(runs / "leaderboard.svg").findall("{*}rect")


def test_only_the_cut_off_line_of_a_file_of_runs_is_dropped(tmp_path: Path) -> None:
    log, run = RunLog(tmp_path), BenchRun((1, 2, 3), 2, 1, 0.5)
    log["one"] = log["two"] = run
    file = tmp_path / RUNS_FILE
    file.write_bytes(file.read_bytes()[:-9])
    assert dict(RunLog(tmp_path)) == {"one": run}
    file.write_text('{"colour": 2}\n')
    with pytest.raises(BadOption, match=r"line 1 is not a run of a benchmark\. Choose another folder"):
        RunLog(tmp_path)
    assert file.read_text() == '{"colour": 2}\n'


@pytest.mark.parametrize(
    ("folder", "limit", "sentence"),
    [
        (None, None, r"--suite gsm8k needs --suite-data FOLDER, a folder with gsm8k/test\.jsonl\."),
        ("empty", None, r"has no gsm8k/test\.jsonl\. Download the questions there first\."),
        ("broken", None, r"line 2 is not a question of this suite\."),
        ("broken", 0, r"--limit takes a number from 1 on, got 0\."),
    ],
)
def test_a_suite_that_cannot_be_read_is_refused_in_one_sentence(
    tmp_path: Path, folder: str | None, limit: int | None, sentence: str
) -> None:
    write(tmp_path / "broken" / "gsm8k" / "test.jsonl", {"question": "How many?"}, {"answer": "4"})
    with pytest.raises(BadOption, match=sentence):
        read_suite("gsm8k", tmp_path / folder if folder else None, limit)


@pytest.mark.parametrize("limit", [1, 2, 24])
def test_all_write_one_text_and_count_what_is_behind_the_first_pass(
    contestants: Sequence[Contestant], limit: int
) -> None:
    options = Options(max_new_tokens=limit, ignore_eos=True)
    runs = [contestant.answer("word word word word", options) for contestant in contestants]
    assert {run.token_ids for run in runs} == {runs[0].token_ids}
    plain, _, theirs, *drafted = runs
    assert (plain.steps, plain.tokens) == (theirs.steps, theirs.tokens) == (limit - 1, limit - 1)
    for run in drafted:
        assert run.steps <= run.tokens <= limit - 1, "its first pass may have written several tokens"
    assert (theirs.seconds > 0) == (limit > 1)


def test_a_draft_model_with_another_vocabulary_is_refused(
    loaded: LoadedModel, folder: ModelFolder, tmp_path: Path
) -> None:
    other = write_tiny(tmp_path, vocabulary=4000)
    with pytest.raises(BadOption, match=r"has 4,000 tokens, and the model has 4,096\. Choose a draft model"):
        transformers_lanes(loaded, folder, other.path)
    with pytest.raises(BadOption, match=r"cannot be read\. Give the folder of a model\."):
        transformers_lanes(loaded, folder, tmp_path / "nothing")


def test_llama_bench_is_asked_for_128_tokens_and_its_own_clock_counts(tmp_path: Path) -> None:
    program = tmp_path / "llama-bench"
    program.write_text(
        """#!/bin/sh\necho "$@" > "$0.asked"\necho '[{"n_gen": 120, "samples_ns": [2000000000]}]'\n"""
    )
    program.chmod(0o755)
    [lane] = llama_lanes(program, [tmp_path / "model-q8_0.gguf"], threads=2)
    run = lane.answer("word", SHORT)
    assert (lane.name, run.tokens_per_second) == ("llama.cpp model-q8_0", 60), "what it says it wrote"
    asked = (tmp_path / "llama-bench.asked").read_text()
    assert f"-m {tmp_path}/model-q8_0.gguf -p 0 -n 128 -r 1 -t 2 -o json" in asked


def test_a_llama_bench_that_fails_is_named(tmp_path: Path) -> None:
    [lane] = llama_lanes(tmp_path / "llama-bench", [tmp_path / "model.gguf"], threads=1)
    with pytest.raises(BadOption, match=r"llama-bench did not measure .*model\.gguf"):
        lane.answer("word", SHORT)


def test_a_folder_without_dejavuu_is_refused(
    loaded: LoadedModel, folder: ModelFolder, tmp_path: Path
) -> None:
    with pytest.raises(BadOption, match=r"dejavuu cannot be imported from .* \(No module named"):
        dejavuu_lanes(loaded, folder, tmp_path, ["stand"], 7)
