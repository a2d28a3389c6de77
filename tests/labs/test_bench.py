"""The comparison with other implementations: what is counted, and that all are asked the same."""

import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.commands.bench_measurement import Contestant, engine_contestant
from app.conversation.race.lane_comparison import Lane
from app.engine.loading.loading import LoadedModel
from app.engine.session.session import Session
from app.errors import BadOption
from app.values.messages import Decoding, ModelChoice, ModelFolder
from labs.bench.contestants import SessionEngine, transformers_lanes
from labs.bench.dejavuu_lanes import dejavuu_lanes
from labs.bench.suites import read_suite
from tests.engine.tiny import write_tiny

CHOICE = ModelChoice("tiny", "float32", "cpu")


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


def test_a_folder_without_dejavuu_is_refused(
    loaded: LoadedModel, folder: ModelFolder, tmp_path: Path
) -> None:
    with pytest.raises(BadOption, match=r"dejavuu cannot be imported from .* \(No module named"):
        dejavuu_lanes(loaded, folder, tmp_path, ["stand"], 7)
