"""Compares the time of our kernels on a GPU with torch's, so that ours are used only if they are not slower.

Steps with our kernels can be recorded, so that the host's launches cost nothing; without them they cannot. So ours
count with the time that the GPU computes (`gpu_seconds`), and torch's attention with its launches (`step_seconds`).
"""

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import torch

MOST = 1.1
"""How many times torch's time our kernels may take."""
SLACK = 2e-6
"""Seconds by which they may always be slower, because shorter times are measured less exactly."""
ROUNDS, SECONDS, MOST_RUNS = 3, 0.01, 50
"""The rounds of a measurement, about how long one takes, and how often it runs the work at most."""
HERTZ = 2e9
"""No GPU's clock is much faster, so a GPU that waits for this many cycles waits for about a second or longer."""

Run = Callable[[], object]
Timer = Callable[[Run], float]
"""Runs the work several times; returns its seconds."""


def gpu_seconds(run: Run) -> float:
    """Measure the seconds that the GPU computes: it waits until the host has launched all kernels of a round."""
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
    """Measure the seconds that the work takes, including the host's launches."""
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
    """Return what is wrong with these times, such as "it takes 2.3 times as long as torch's"; "" if nothing is."""
    is_slow = ours > MOST * torchs + SLACK
    return f"{which} takes {ours / torchs:.1f} times as long as {other}" if is_slow else ""
