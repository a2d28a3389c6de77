"""The end of a process comes, whatever its threads are at: tried with real ones that hang."""

import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from app.system.child_process import importing_environment
from app.system.shutdown import ending_within

HANGING = """
import ctypes, sys, threading
from pathlib import Path
from app.system.shutdown import end_within
end_within(1.0, Path(sys.argv[1]))
print("closing", flush=True)
HANG
"""
HANGS = {
    "C code that holds the interpreter's lock": "ctypes.PyDLL(None).sleep(60)",
    "a thread that Python waits for": "threading.Thread(target=threading.Event().wait).start()",
    "a lock": "threading.Lock().__enter__(); lock = threading.Lock(); lock.acquire(); lock.acquire()",
}


@pytest.mark.skipif(sys.platform == "win32", reason="sleep is of POSIX's libc")
@pytest.mark.parametrize("hang", list(HANGS.values()), ids=list(HANGS))
def test_a_process_that_hangs_ends_in_time_and_the_log_tells_where(tmp_path: Path, hang: str) -> None:
    log = tmp_path / "log"
    with subprocess.Popen(
        [sys.executable, "-c", HANGING.replace("HANG", hang), str(log)],
        stdout=subprocess.PIPE,
        env=importing_environment(),
    ) as process:
        assert process.stdout and process.stdout.readline() == b"closing\n"
        assert process.wait(300) == 1, "it ends before what hangs does"
    assert "Timeout" in log.read_text()


def test_a_process_that_is_done_in_time_goes_on() -> None:
    with ending_within(0.05):
        pass
    end = monotonic() + 0.2
    while monotonic() < end:
        pass


def test_a_log_that_cannot_be_written_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    script = HANGING.replace("HANG", "threading.Event().wait()")
    process = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "nowhere" / "log")],
        env=importing_environment(),
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert process.returncode == 1
