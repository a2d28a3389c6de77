"""Times and memory, read from a scripted card and from this CPU."""

from typing import Any

import pytest
import torch

from app.engine.gpu_report.gauge import COPIES, CpuGauge, CudaGauge, Times, in_turn, make_gauge, times_of


class ScriptedCard:
    """torch.cuda with a clock that each event moves on by another millisecond."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.now = 0.0
        self.step = 0.0

    def Event(self, enable_timing: bool) -> Any:  # noqa: N802 - torch's name
        assert enable_timing
        return ScriptedEvent(self)

    def synchronize(self, _device: torch.device) -> None:
        self.calls.append("wait")

    def empty_cache(self) -> None:
        self.calls.append("empty")

    def reset_peak_memory_stats(self, _device: torch.device) -> None:
        self.calls.append("reset")

    def memory_allocated(self, _device: torch.device) -> int:
        return 100

    def max_memory_allocated(self, _device: torch.device) -> int:
        return 300


class ScriptedEvent:
    def __init__(self, card: ScriptedCard) -> None:
        self.card, self.at = card, 0.0

    def record(self) -> None:
        self.card.step += 0.5
        self.card.now += self.card.step
        self.at = self.card.now

    def elapsed_time(self, end: "ScriptedEvent") -> float:
        return end.at - self.at


def gauge_of(card: ScriptedCard) -> CudaGauge:
    return CudaGauge(torch.device("cpu"), card, flushed=1 << 10)


def test_a_kernel_is_timed_between_events_and_waited_for_once() -> None:
    card, runs = ScriptedCard(), list[int]()
    took = gauge_of(card).kernel(lambda: runs.append(1), 3)
    # The events' clock goes on by 0.5, 1, 1.5, ... ms: the ends come 1, 2 and 3 ms after the beginnings.
    assert took == Times(median=0.002, least=0.001, samples=3)
    assert card.calls == ["wait"]
    assert len(runs) == 6


def test_a_copy_counts_what_is_read_and_what_is_written() -> None:
    middle = (COPIES + 1) / 2 / 1000
    assert gauge_of(ScriptedCard()).bandwidth() == pytest.approx(2 * 512 / middle)


def test_memory_is_the_allocators() -> None:
    card = ScriptedCard()
    gauge = gauge_of(card)
    gauge.restart_peak()
    assert (gauge.used(), gauge.peak(), card.calls) == (100, 300, ["reset", "empty"])


def test_runs_take_turns_and_the_first_rounds_do_not_count() -> None:
    order: list[str] = []
    runs = [lambda: order.append("a"), lambda: order.append("b")]
    times = in_turn(CpuGauge(), runs, rounds=2, warm_up=1)
    assert order == ["a", "b"] * 3
    assert [each.samples for each in times] == [2, 2]


def test_a_device_has_its_gauge() -> None:
    assert isinstance(make_gauge("cpu"), CpuGauge)
    assert isinstance(make_gauge("cuda"), CudaGauge)
    assert CpuGauge().bandwidth() > 0


def test_times_without_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="times are of samples and above 0"):
        Times(1.0, 2.0, 1)
    assert times_of([3.0, 1.0, 2.0]) == Times(2.0, 1.0, 3)
