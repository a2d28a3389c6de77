"""Runs sections: here, or in a child process that may hang or crash without taking the rest along.

After an illegal access on a CUDA device nothing else runs in that process, and a compiler may hang for minutes. So
the sections run in a child, which tells each finding as soon as it is made; after a fault the next section gets a
new child.
"""

import gc
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from time import perf_counter

from app.engine.gpu_report.findings import Finding, SectionResult
from app.engine.gpu_report.gauge import Gauge, make_gauge
from app.engine.gpu_report.plan import Plan
from app.engine.gpu_report.sections import Section
from app.engine.quiet import quiet_imports
from app.errors import AppError

GRACE = 20.0
"""Seconds that a section may take beyond its time for one finding, before its process is ended."""

Execute = Callable[[Section, float], SectionResult]
"""(section, seconds) -> what it found within that time, whatever happens."""


@dataclass(frozen=True, slots=True)
class End:
    """A section is over; `fault` says why before it was whole."""

    fault: str = ""
    trace: str = ""


def measured(section: Section, plan: Plan, gauge: Gauge, seconds: float) -> Iterator[Finding | End]:
    """The section's findings, then its End. After its time it may finish the finding that it is at."""
    begin = perf_counter()
    try:
        for finding in section.measure(plan, gauge):
            yield finding
            if perf_counter() - begin > seconds:
                yield End(f"it was stopped after its {seconds:.0f} s")
                return
    except AppError as error:
        yield End(str(error))
        return
    except Exception as error:  # a compiler's, a driver's, a bug's: the other sections must not suffer
        yield End(_sentence(error), traceback.format_exc())
        return
    yield End()


def _sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def here(plan: Plan) -> Execute:
    """In this process, on the plan's device."""
    gauge = make_gauge(plan.device)

    def execute(section: Section, seconds: float) -> SectionResult:
        begin = perf_counter()
        *findings, end = measured(section, plan, gauge, seconds)
        assert isinstance(end, End)
        found = tuple(each for each in findings if isinstance(each, Finding))
        return SectionResult(section.name, found, perf_counter() - begin, end.fault, end.trace)

    return execute


@contextmanager
def in_child(plan: Plan) -> Iterator[Execute]:
    """In child processes, which end with this."""
    child = _Child(plan)
    try:
        yield child.execute
    finally:
        child.end()


class _Child:
    """A process that measures sections; started when it is needed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def execute(self, section: Section, seconds: float) -> SectionResult:
        """Everything that the child tells in time. A child that met a fault is not used again."""
        begin = perf_counter()
        pipe = self._started()
        pipe.send((section, seconds))
        findings: list[Finding] = []
        end = None
        while end is None:
            told = _next(pipe, seconds + GRACE - (perf_counter() - begin))
            if isinstance(told, Finding):
                findings.append(told)
            else:
                end = told
        if end.fault:
            self.end()
        return SectionResult(section.name, tuple(findings), perf_counter() - begin, end.fault, end.trace)

    def end(self) -> None:
        """Kill the process, if there is one: it may hang in a driver."""
        if self._process is not None and self._pipe is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = self._pipe = None

    def _started(self) -> Connection:
        if self._pipe is None:
            context = get_context("spawn")  # a forked process could not use CUDA
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(self._plan, theirs))
            self._process.start()
            theirs.close()
        return self._pipe


def _next(pipe: Connection, seconds: float) -> Finding | End:
    """What the child tells next; an End of our own where it tells nothing any more."""
    try:
        if not pipe.poll(max(0.0, seconds)):
            return End("it hung, so its process was ended")
        told = pipe.recv()
    except (EOFError, OSError):
        return End("its process crashed")
    return told if isinstance(told, Finding | End) else End(f"its process told {told!r}")


def _serve(plan: Plan, pipe: Connection) -> None:
    """The child's life: sections in, findings out, until the parent is gone."""
    quiet_imports()
    gauge = make_gauge(plan.device)
    while True:
        try:
            section, seconds = pipe.recv()
        except EOFError:
            return
        for told in measured(section, plan, gauge, seconds):
            pipe.send(told)
        gc.collect()
        gauge.used()  # lets go of what it holds itself
