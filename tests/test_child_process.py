"""A process beside the app: real ones, that end well, are killed, or lose their app."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from app.child_process import ChildProcess, importing_environment

WORKER = "tests.child_worker"
CHECKOUT = Path(__file__).parent.parent


def said(job: bytes, environment: Mapping[str, str]) -> list[bytes]:
    with ChildProcess(WORKER, job, environment) as child:
        return list(child.lines())


def test_a_job_goes_in_and_lines_come_out() -> None:
    assert said(b"eggs\n", {}) == [b"eggs\n", b"nothing\n"]


def test_a_process_gets_what_is_added_to_the_environment() -> None:
    assert said(b"eggs\n", {"GIVEN": "milk"}) == [b"eggs\n", b"milk\n"]


def test_half_a_line_is_left_out() -> None:
    assert said(b"half\n", {}) == [b"whole\n"]


def test_a_killed_process_ends_its_lines_and_may_be_killed_again() -> None:
    with ChildProcess(WORKER, b"endless\n") as child:
        lines = child.lines()
        assert next(lines) == b"begun\n"
        child.kill()
        assert list(lines) == []
        child.kill()


def test_a_process_finds_the_app_wherever_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said(b"eggs\n", {})[0] == b"eggs\n"


APP = """
from app.child_process import ChildProcess
child = ChildProcess("tests.child_worker", b"holding\\n", {"GIVEN": LOCK})
print(next(child.lines()), flush=True)
input()
"""


def test_a_process_ends_with_an_app_that_was_killed(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "held")
    with subprocess.Popen(
        [sys.executable, "-c", APP.replace("LOCK", repr(lock.lock_file))],
        cwd=CHECKOUT,
        env=importing_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as app:
        assert app.stdout and b"held" in app.stdout.readline()
        with pytest.raises(Timeout):
            lock.acquire(timeout=0)
        app.kill()
    with lock.acquire(timeout=40):
        pass
