"""Children that are forked from a process which has imported their module, so that only one process imports it."""

import multiprocessing
import os
import subprocess
import sys
from importlib import import_module
from multiprocessing.connection import Connection

from app.system.child_process import ChildProcess, serve_until_closed
from app.system.programs import OWN_FOLDER

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["app.tools.mcp_client_main"])


class ForkedChild(ChildProcess):
    """A child of `serve_until_closed` that leads a group and has pipes as a started one, but starts at once."""

    def __init__(self, module: str, has_log: bool) -> None:
        assert has_log
        self._request = b""
        ours, pipes = list[int](), list[Connection]()
        for is_written in (True, False, False):
            receiving, sending = FORKS.Pipe(duplex=False)
            kept, given = (sending, receiving) if is_written else (receiving, sending)
            ours.append(os.dup(kept.fileno()))
            kept.close()
            pipes.append(given)
        process = FORKS.Process(target=_run, args=(module, pipes), daemon=True)
        process.start()
        for pipe in pipes:
            pipe.close()
        self._process = _Popen(process)  # type: ignore[assignment]
        self._input, self._output = os.fdopen(ours[0], "wb"), os.fdopen(ours[1], "rb")
        self.log = os.fdopen(ours[2], "rb")


class _Popen:
    """A forked process with the methods of subprocess.Popen that ChildProcess calls."""

    def __init__(self, process: multiprocessing.process.BaseProcess) -> None:
        self._process = process
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float) -> None:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("", timeout)


def _run(module: str, pipes: list[Connection]) -> None:
    os.setsid()
    os.chdir(OWN_FOLDER)
    for number, pipe in enumerate(pipes):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    sys.stdin, sys.stderr = os.fdopen(0), os.fdopen(2, "w")
    serve_until_closed(import_module(module).serve)
