"""A process beside the app: real ones, that end well, are killed, or lose their app."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from app.errors import ProcessNotStarted
from app.system.child_process import ChildProcess, importing_environment

WORKER = "tests.child_worker"
CHECKOUT = Path(__file__).parents[2]


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


SHADOW = "open({!r}, 'a').write(__name__ + chr(10))\nprint('{{}}')\nraise SystemExit\n"
SHADOWED = (
    "struct", "json", "threading", "subprocess", "queue", "logging", "typing", "torch", "transformers", "numpy",
    "pypdfium2", "docx", "filelock", "huggingface_hub", "app", "tests", "sitecustomize", "usercustomize",
)  # fmt: skip
CHILDREN = sorted(
    ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
    for path in (CHECKOUT / "app").rglob("*_main.py")
    if "child_process" in path.read_text(encoding="utf-8")
)


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """What has run of a folder full of modules with the names of the system's, in which the app was started."""
    told, downloads = tmp_path / "ran", tmp_path / "Downloads"
    for folder in (downloads, downloads / "sub"):
        folder.mkdir()
        for name in SHADOWED:
            (folder / f"{name}.py").write_text(SHADOW.format(str(told)), encoding="utf-8")
    monkeypatch.chdir(downloads)
    return lambda: told.read_text(encoding="utf-8") if told.exists() else ""


@pytest.mark.parametrize("module", CHILDREN)
def test_no_child_runs_what_lies_in_the_current_folder(ran: Callable[[], str], module: str) -> None:
    with ChildProcess(module, b"[]\n") as child:
        child.ask(b"[]\n", 60)  # no request that it knows: it ends, or says so
    assert ran() == ""


@pytest.mark.parametrize("given", ["", ".", ":", "::.", "./", "sub/..", "/nowhere:", ":/nowhere"])
def test_no_path_of_the_shell_brings_the_current_folder_back(
    ran: Callable[[], str], monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", given.replace(":", os.pathsep))
    assert said(b"eggs\n", {})[0] == b"eggs\n"
    assert ran() == ""


def test_a_folder_of_modules_that_the_person_named_is_still_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("lib", "/elsewhere")))
    monkeypatch.chdir(tmp_path)
    places = importing_environment()["PYTHONPATH"].split(os.pathsep)
    assert places == [str(CHECKOUT), str(tmp_path / "lib"), "/elsewhere"]


def test_what_libraries_and_their_programs_print_is_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "print('hello')\nprint('half a line', end='')", encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert said(b"noisy\n", {}) == [b"heard\n"]
    with ChildProcess(WORKER) as child:
        assert child.ask(b"noisy\n", 60) == b"heard\n"


APP = """
from app.system.child_process import ChildProcess
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
    with lock.acquire(timeout=300):
        pass


def reaped(child: ChildProcess) -> bool:
    """Whether the system has nothing left of a process of ours."""
    with pytest.raises(ChildProcessError):
        os.waitpid(child.pid, os.WNOHANG)
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="asks POSIX about a process")
def test_a_process_that_dies_before_it_has_its_job_says_nothing_and_leaves_nothing() -> None:
    job = b"x" * 1_000_000  # more than a pipe holds: it cannot be handed over to nobody
    with ChildProcess("tests.no_such_module", job) as child:
        assert list(child.lines()) == []
    assert reaped(child)


@pytest.mark.skipif(sys.platform == "win32", reason="asks POSIX about a process")
def test_a_process_that_hangs_before_it_takes_its_job_can_be_killed() -> None:
    with ChildProcess(WORKER, b"x" * 1_000_000) as child:
        os.kill(child.pid, signal.SIGSTOP)
        timer = threading.Timer(0.5, child.kill)
        timer.start()
        assert list(child.lines()) == []
        timer.join()
    assert reaped(child)


@contextmanager
def no_more_files() -> Iterator[None]:
    """As long as this lasts, the system opens no file and starts no process for this one."""
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as file:
        next_one = file.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_where_no_process_can_be_started_it_is_a_sentence() -> None:
    with no_more_files(), pytest.raises(ProcessNotStarted, match=r"\(Too many open files\): close other"):
        ChildProcess(WORKER, b"eggs\n")


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no such limit")
def test_a_limit_of_processor_time_that_a_finaliser_ignores_is_reported_again() -> None:
    code = """
from app.system.child_process import OutOfProcessorTime, limit_processor_time
class Slow:
    def __del__(self):
        while True:
            pass
limit_processor_time(1)
try:
    Slow()
    while True:
        pass
except OutOfProcessorTime:
    print("given up")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "given up\n"), ended.stderr
