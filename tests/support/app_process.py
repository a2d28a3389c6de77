"""Runs the app as a user does, as a child process with a data folder of its own.

The process is `python -m tests.support.app_process`, which runs run.py with quicker modules. With the argument
`requests` it prints each request that it accepts. If the variable GPU_BUILD is set, its torch counts as built for
CUDA; with FULL_MEASUREMENTS it measures a model for as long as the app of a user does."""

import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from urllib.request import urlopen

from app.database.data_folder import DataFolder
from app.system import gpus
from tests.support import quicker_modules

CHECKOUT = Path(__file__).parents[2]
START_SECONDS = 240.0
STOP_SECONDS = 60.0
REQUESTS = "app.ui.frame.page_key"
"""The name of the log of requests."""
REQUESTS_TOLD = "requests"
GPU_BUILD = "FORESIGHT_TESTS_GPU_BUILD"
FULL_MEASUREMENTS = "FORESIGHT_TESTS_FULL_MEASUREMENTS"


class AppProcess:
    """An app with a data folder and a port, which can be started, ended, killed and started again."""

    def __init__(
        self, data_dir: Path, environment: dict[str, str] | None = None, tells_requests: bool = False
    ) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self._tells_requests = tells_requests
        self._environment = environment or {**os.environ, "HF_HUB_OFFLINE": "1"}
        self._log = data_dir.with_name(f"{data_dir.name}.log")  # beside the folder, which the app makes
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "AppProcess":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def process(self) -> int:
        """The id of the running process. Raises RuntimeError if the app does not run."""
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("the app does not run")
        return self._process.pid

    def start(self) -> None:
        """Start the app and wait for its page. Raises RuntimeError with the app's output if it does not answer."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            command = app_command(self.port, self.data_dir)
            command[1:2] = ["-m", "tests.support.app_process", *[REQUESTS_TOLD] * self._tells_requests]
            self._process = subprocess.Popen(
                command, cwd=CHECKOUT, stdout=log, stderr=subprocess.STDOUT, env=self._environment
            )
        self._wait_for_answer(self._process)

    @property
    def url(self) -> str:
        """The address that the app announced at its last start, with the page's key."""
        return DataFolder(self.data_dir).running_at()

    def end(self) -> None:
        """End the app by SIGTERM, as the system does. Does nothing if the app does not run."""
        if self._process:
            self._process.terminate()
            self._process.wait(STOP_SECONDS)
            self._process = None

    def interrupt(self) -> int:
        """End the app by SIGINT, as Ctrl+C does, and return its exit code."""
        if not self._process:
            return 0
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(STOP_SECONDS)
        self._process = None
        return code

    def kill(self) -> None:
        """End the app at once, as kill -9 does. Raises RuntimeError if it had ended by itself."""
        if self._process:
            self._process.kill()
            code, self._process = self._process.wait(), None
            if os.name != "nt" and code != -signal.SIGKILL:
                raise RuntimeError(f"the app had ended by itself with code {code}:\n{self.said()}")

    def said(self) -> str:
        """Return what the app has printed in all its runs."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def loads(self) -> int:
        """Return how many requests for the page are in the server's log. The app must run with `tells_requests`."""
        return self.said().count(f"INFO {REQUESTS}: GET '/'\n")

    def _wait_for_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = monotonic() + START_SECONDS
        while monotonic() < deadline and process.poll() is None:
            if answers(self.url):
                return
            sleep(0.05)
        process.kill()
        process.wait()
        self._process = None
        raise RuntimeError(f"the app did not answer at port {self.port}:\n{self.said()}")


def answers(address: str) -> bool:
    """Return whether the page answers at this address. An app that was killed leaves an address with an old key."""
    try:
        if address:
            urlopen(address, timeout=60).close()
        return bool(address)
    except OSError:  # refused, or accepted but not answered yet
        return False


def app_command(port: int, data_dir: Path | str, *more: str) -> list[str]:
    """Return the command that starts the app at this port with this data folder, without opening a browser."""
    return [sys.executable, "run.py", "--no-browser", "--port", str(port), "--data-dir", str(data_dir), *more]


def free_port() -> int:
    """Return a port on which no program listens now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


if __name__ == "__main__":
    if sys.argv[1] == REQUESTS_TOLD:
        del sys.argv[1]
        logging.getLogger(REQUESTS).setLevel(logging.INFO)
    if GPU_BUILD in os.environ:
        gpus.cuda_of_torch = lambda _find=None: (13, 0)  # type: ignore[assignment]
    quicker_modules.install(measures_briefly=FULL_MEASUREMENTS not in os.environ)
    runpy.run_path(str(CHECKOUT / "run.py"), run_name="__main__")
