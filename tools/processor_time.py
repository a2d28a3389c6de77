"""Measures the processor time of the engine's thread, of this process's other threads, and of its child processes.

Unlike tokens per second, processor time hardly changes when other programs run. Linux only.
"""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
"""Ticks of the system's clock per second."""


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Processor seconds of the engine's thread, of other threads (`page`), and of child processes (`browser`)."""

    engine: float
    page: float
    browser: float

    def since(self, before: "ProcessorTime") -> "ProcessorTime":
        """Return what was used after `before`."""
        return ProcessorTime(
            self.engine - before.engine, self.page - before.page, self.browser - before.browser
        )


def processor_time() -> ProcessorTime:
    engine = sum(map(_of_thread, threading.enumerate()))
    below = _below(os.getpid(), _parents())
    return ProcessorTime(engine, time.process_time() - engine, sum(map(seconds_of, below)))


def _of_thread(thread: threading.Thread) -> float:
    if thread.name != "engine" or thread.ident is None:
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def seconds_of(process: int) -> float:
    """Return the seconds of processor time that a process has used so far; 0 if it has ended."""
    fields = _fields(process)
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def _below(process: int, parents: dict[int, int]) -> Iterator[int]:
    for child, parent in parents.items():
        if parent == process:
            yield child
            yield from _below(child, parents)


def _parents() -> dict[int, int]:
    numbers = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]
    return {number: int(fields[1]) for number in numbers if (fields := _fields(number))}


def _fields(process: int) -> list[str]:
    """Return the fields of /proc/N/stat after the name in brackets; none if the process has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
