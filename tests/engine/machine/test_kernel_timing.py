"""Times of kernels: on a GPU that is a clock with a queue, and on a real one where there is one."""

import time
from typing import Any

import pytest
import torch

from app.engine.machine import kernel_timing
from app.engine.machine.kernel_timing import gpu_seconds, slowness, step_seconds


class QueuedGpu:
    """A GPU that works through a queue: the host's clock and its own meet only where the host waits."""

    def __init__(self, launching: float, computing: float) -> None:
        self.launching, self.computing = launching, computing
        self.host = self.done = 0.0

    def run(self) -> None:
        self.host += self.launching
        self._queue(self.computing)

    def _queue(self, seconds: float) -> None:
        self.done = max(self.host, self.done) + seconds

    def wait(self, cycles: int) -> None:
        self._queue(cycles / 1.5e9)

    def synchronize(self) -> None:
        self.host = max(self.host, self.done)

    def event(self, **_named: bool) -> Any:
        gpu = self

        class Event:
            at = 0.0

            def record(self) -> None:
                self.at = max(gpu.host, gpu.done)

            def synchronize(self) -> None:
                gpu.synchronize()

            def elapsed_time(self, end: "Event") -> float:
                return 1000 * (end.at - self.at)

        return Event()


@pytest.mark.parametrize(("launching", "computing"), [(1e-3, 2e-5), (2e-5, 1e-3), (1e-6, 3.0)])
def test_the_hosts_launches_count_only_in_a_step(
    launching: float, computing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = QueuedGpu(launching, computing)
    monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronize)
    monkeypatch.setattr(torch.cuda, "Event", gpu.event)
    monkeypatch.setattr(torch.cuda, "_sleep", gpu.wait)
    monkeypatch.setattr(kernel_timing, "perf_counter", lambda: gpu.host)
    assert gpu_seconds(gpu.run) == pytest.approx(computing, rel=0.01)
    assert step_seconds(gpu.run) == pytest.approx(max(launching, computing), rel=0.15)


def test_a_kernel_may_take_a_tenth_longer_and_no_more() -> None:
    assert slowness(1.09e-3, 1e-3) == slowness(1e-3, 5e-3) == slowness(6e-6, 5e-6) == ""
    assert slowness(2.3e-3, 1e-3) == "it takes 2.3 times as long as torch's"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_computes_large_products_longer_than_small_ones() -> None:
    small, large = (torch.randn(size, size, device="cuda") for size in (64, 4096))
    begin = time.perf_counter()
    assert 0 < gpu_seconds(lambda: small @ small) < gpu_seconds(lambda: large @ large)
    assert time.perf_counter() - begin < 5
