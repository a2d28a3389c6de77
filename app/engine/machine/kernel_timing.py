"""Compares the time of our kernels on a GPU with torch's, so that ours are not used if they are clearly slower.

Only steps with our kernels can be recorded as graphs. So our attention is timed on the GPU alone (`gpu_seconds`),
and torch's with the host's launches (`step_seconds`).
"""

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import torch

MOST = 1.1
"""The maximum time of our kernels, as a multiple of torch's."""
SLACK = 2e-6
"""Further seconds that our kernels may take beyond MOST, because short times are measured less exactly."""
ROUNDS, SECONDS, MOST_RUNS = 3, 0.01, 50
"""The rounds of a measurement, about how many seconds each takes, and the maximum number of runs in each."""
HERTZ = 2e9
"""The assumed clock of a GPU. No GPU's clock is much faster, so HERTZ cycles take about a second or more."""

Run = Callable[[], object]
Timer = Callable[[Run], float]
"""Runs the work several times; returns the seconds of one run."""


def gpu_seconds(run: Run) -> float:
    """Measure the seconds that the GPU computes in one run. In each round the GPU first waits long enough for the
    host to launch all kernels of the round."""
    times, launching = _times(run)
    wait = getattr(torch.cuda, "_sleep", lambda _cycles: None)  # torch's name is private
    make_event: Any = torch.cuda.Event
    found: list[float] = []
    for _ in range(ROUNDS):
        begin, end = make_event(enable_timing=True), make_event(enable_timing=True)
        wait(int(2 * launching * times * HERTZ))
        begin.record()
        for _ in range(times):
            run()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) / 1000 / times)
    return median(found)


def step_seconds(run: Run) -> float:
    """Measure the seconds that one run takes, including the host's launches."""
    times, _ = _times(run)
    found = []
    for _ in range(ROUNDS):
        begin = perf_counter()
        for _ in range(times):
            run()
        torch.cuda.synchronize()
        found.append((perf_counter() - begin) / times)
    return median(found)


def _times(run: Run) -> tuple[int, float]:
    """Return how often a round runs the work, and how many seconds the host needs to launch it once."""
    for _ in range(2):  # the first run may compile, or allocate
        torch.cuda.synchronize()
        begin = perf_counter()
        run()
        launching = perf_counter() - begin
        torch.cuda.synchronize()
    return max(1, min(MOST_RUNS, int(SECONDS / (perf_counter() - begin)))), launching


def slowness(ours: float, torchs: float, which: str = "it", other: str = "torch's") -> str:
    """Return a clause if our kernel is too slow, such as "it takes 2.3 times as long as torch's", else ""."""
    is_slow = ours > MOST * torchs + SLACK
    return f"{which} takes {ours / torchs:.1f} times as long as {other}" if is_slow else ""
