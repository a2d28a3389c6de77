"""In which order the parts of a reply's steps run.

    in turn       launch 1, finish 1, report 1, show 1, launch 2, finish 2, ...
    overlapped    launch 1, finish 1, launch 2, report 1, show 1, finish 2, ...

A card computes while the host reports a step (its trace, what it teaches) and shows it. On a CPU a pass is over
when it was launched, so each step is shown before the next one is launched.
"""

from collections.abc import Iterator
from typing import Protocol

from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.step import Step
from app.values.messages import StopReason


class ReplySteps(Protocol):
    """The steps of one reply, each in three parts."""

    def launch(self) -> None:
        """Launch the next step's forward pass."""

    def finish(self) -> StopReason | None:
        """Wait for the launched pass and commit its tokens; returns why the reply ends with them, if it does."""

    def report(self) -> Step:
        """The step that was finished last; the next one may have been launched."""


def run_steps(steps: ReplySteps, runner: ModelRunner) -> Iterator[Step]:
    """All steps, in the order that suits the runner."""
    return overlapped(steps) if runner.is_asynchronous else in_turn(steps)


def in_turn(steps: ReplySteps) -> Iterator[Step]:
    """Each step ends before the next begins."""
    reason = None
    while reason is None:
        steps.launch()
        reason = steps.finish()
        yield steps.report()


def overlapped(steps: ReplySteps) -> Iterator[Step]:
    """Each step is reported and shown while the next one is computed."""
    steps.launch()
    while steps.finish() is None:
        try:
            steps.launch()
        except Exception:  # what was committed is shown before the reply ends
            yield steps.report()
            raise
        yield steps.report()
    yield steps.report()
