"""The script for a new card: its trials run whatever becomes of the others, and their output is kept."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.first_card import CUDA_TESTS, ROOT, Trial, run_all, short_trials, trials

DEAF = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
LATE = """import sys, time
print("begun")
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("why tests failed")
    sys.exit()
"""


def test_each_trial_runs_within_its_limit_and_leaves_its_output(tmp_path: Path) -> None:
    planned = [
        Trial("speaks", 1, ("platform",)),
        Trial("fails", 1, ("no_such_module",)),
        Trial("hangs", 0.03, ("platform",), before=DEAF),
        Trial("is late", 0.1, ("platform",), before=LATE),
        Trial("is alone", 1, ("platform",), before="import sys; print('triton' in sys.modules)"),
    ]
    found = [(outcome.trial.name, outcome.ending) for outcome in run_all(planned, tmp_path)]
    assert found == [
        ("speaks", "well"),
        ("fails", "with exit code 1"),
        ("hangs", "at its limit of 0.03 minutes"),
        ("is late", "at its limit of 0.1 minutes"),
        ("is alone", "well"),
    ]
    outputs = dict(
        part.split(" ===\n", 1) for part in (tmp_path / "output.txt").read_text().split("\n=== ")[1:]
    )
    assert sys.platform[:3].lower() in outputs["speaks"].lower()
    assert "no_such_module" in outputs["fails"]
    assert outputs["is late"].splitlines() == ["begun", "why tests failed"]
    assert "| hangs | at its limit of 0.03 minutes |" in (tmp_path / "summary.md").read_text()


def test_a_second_call_goes_on_with_what_did_not_end_well(tmp_path: Path) -> None:
    planned = [Trial("speaks", 1, ("platform",)), Trial("fails", 1, ("no_such_module",))]
    assert len(list(run_all(planned, tmp_path))) == 2
    assert [outcome.trial.name for outcome in run_all(planned, tmp_path)] == ["fails"]
    assert list(run_all(planned, tmp_path, minutes=0.1)) == []
    assert len((tmp_path / "summary.md").read_text().splitlines()) == 4


def test_what_must_be_known_first_is_tried_first(tmp_path: Path) -> None:
    names = [trial.name for trial in trials(tmp_path)]
    first = ["same text", "Steps", "Kernels of a step", "Sampled steps", "Identical bits", "Prompts"]
    assert names[:8] == [*first, "Quantised steps", "Replies"]
    assert names[-1] == "soak"


def test_one_trial_can_be_run_alone_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.first_card", str(tmp_path), "--short", "--only", "tset"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: there is no trial 'tset', only same text, Kernels of a step, tests, without triton.\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_no_trial_of_a_card_takes_more_than_8_minutes(tmp_path: Path) -> None:
    assert max(trial.minutes for trial in trials(tmp_path)) <= 8


def test_the_trials_of_a_card_take_50_minutes_at_most(tmp_path: Path) -> None:
    assert sum(trial.minutes for trial in trials(tmp_path)) <= 50


def test_the_tests_of_a_card_are_there() -> None:
    assert [path for path in CUDA_TESTS if not (ROOT / path).exists()] == []


@pytest.mark.thorough
def test_the_short_form_runs_on_a_cpu(tmp_path: Path) -> None:
    endings = {outcome.trial.name: outcome.ending for outcome in run_all(short_trials(tmp_path), tmp_path)}
    assert set(endings.values()) == {"well"}, endings
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "output.txt", "report.json", "report.md", "summary.md",
    ]  # fmt: skip
