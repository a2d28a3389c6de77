"""What times and memory are read from: a CUDA device, or a CPU, on which the same sections can be tried.

A kernel is timed on the device itself. Before each sample the second-level cache is overwritten, which also takes
the device so long that the host has launched the kernel by then: no launch is in the time.

    device   | overwrite 2 GiB ........ | begin | kernel | end |
    host     launches all four of them, then waits once, behind the last sample

A step is timed on the host, from a waiting device to a waiting device, as the person waits for it.
"""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, Protocol

import torch
from torch import Tensor

Run = Callable[[], Any]

WARM_UP = 3
FLUSHED = 2 << 30
"""Bytes that are overwritten between kernels; half of them are copied to the other half for the bandwidth."""
COPIES = 20


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of some samples."""

    median: float
    least: float
    samples: int

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 < self.least <= self.median:
            raise ValueError(f"times are of samples and above 0, got {self}")

    def to_json(self) -> dict[str, float | int]:
        """In milliseconds."""
        return {"median": 1000 * self.median, "least": 1000 * self.least, "samples": self.samples}


def times_of(seconds: Sequence[float]) -> Times:
    """The median and the least of the samples."""
    return Times(median(seconds), min(seconds), len(seconds))


class Gauge(Protocol):
    """One device to be measured on."""

    @property
    def device(self) -> torch.device:
        """Where it measures."""

    def kernel(self, run: Run, samples: int) -> Times:
        """The device's own time for what `run` launches, with cold caches."""

    def bandwidth(self) -> float:
        """Bytes per second of a large copy on the device, read and written bytes together."""

    def wait(self) -> None:
        """Return when the device has done everything."""

    def used(self) -> int:
        """Bytes that tensors take now, garbage collected."""

    def restart_peak(self) -> None:
        """Forget the peak."""

    def peak(self) -> int:
        """The most bytes that tensors took since then; 0 where nobody counts."""


def make_gauge(device: str) -> Gauge:
    """The gauge of a device, by torch's name of it."""
    return CudaGauge(torch.device(device)) if device.startswith("cuda") else CpuGauge()


class CudaGauge:
    """By the device's own events and torch's allocator. `cuda` is torch's module of that name."""

    def __init__(self, device: torch.device, cuda: Any = torch.cuda, flushed: int = FLUSHED) -> None:
        self.device = device
        self._cuda = cuda
        self._flushed_bytes = flushed
        self._space: Tensor | None = None

    def kernel(self, run: Run, samples: int) -> Times:
        """Between two events; the host waits once, behind the last sample."""
        space = self._flushed()
        for _ in range(WARM_UP):
            run()
        pairs = []
        for _ in range(samples):
            space.zero_()
            begin, end = (self._cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            pairs.append((begin, end))
        self.wait()
        return times_of([begin.elapsed_time(end) / 1000 for begin, end in pairs])

    def bandwidth(self) -> float:
        """Of one half of the space copied to the other: more than any cache holds."""
        source, target = self._flushed().chunk(2)
        took = self.kernel(lambda: target.copy_(source), COPIES)
        return float(2 * source.numel() / took.median)

    def wait(self) -> None:
        """For all streams of the device."""
        self._cuda.synchronize(self.device)

    def used(self) -> int:
        """What the allocator has given away; the flushed space is let go first."""
        self._space = None
        gc.collect()
        self._cuda.empty_cache()
        return int(self._cuda.memory_allocated(self.device))

    def restart_peak(self) -> None:
        """By the allocator's count."""
        self._space = None
        self._cuda.reset_peak_memory_stats(self.device)

    def peak(self) -> int:
        """By the allocator's count."""
        return int(self._cuda.max_memory_allocated(self.device))

    def _flushed(self) -> Tensor:
        if self._space is None:
            self._space = torch.empty(self._flushed_bytes, dtype=torch.uint8, device=self.device)
        return self._space


class CpuGauge:
    """By the wall's clock; it knows nothing of memory. For trying the report where there is no card."""

    device = torch.device("cpu")

    def kernel(self, run: Run, samples: int) -> Times:
        """Seconds of each call."""
        run()
        return in_turn(self, [run], samples, warm_up=0)[0]

    def bandwidth(self) -> float:
        """Of one MiB."""
        source, target = torch.zeros((2, 1 << 20), dtype=torch.uint8)
        took = self.kernel(lambda: target.copy_(source), COPIES)
        return float(2 * source.numel() / took.median)

    def wait(self) -> None:
        """It never runs ahead."""

    def used(self) -> int:
        """Unknown."""
        return 0

    def restart_peak(self) -> None:
        """There is none."""

    def peak(self) -> int:
        """Unknown."""
        return 0


def in_turn(gauge: Gauge, runs: Sequence[Run], rounds: int, warm_up: int = WARM_UP) -> list[Times]:
    """Wall times of these runs, round after round (A B C, A B C), the device waited for before and after each."""
    taken: list[list[float]] = [[] for _ in runs]
    for lap in range(warm_up + rounds):
        for run, seconds in zip(runs, taken, strict=True):
            gauge.wait()
            begin = perf_counter()
            run()
            gauge.wait()
            if lap >= warm_up:
                seconds.append(perf_counter() - begin)
    return [times_of(seconds) for seconds in taken]
