"""Segments grow where the driver allows it, and are as they were where it does not."""

import pytest
import torch

from app.engine.machine.cuda_segments import TorchAllocator, expand_segments, try_expanding


class Allocator:
    """Notes what it is told; raises the given errors."""

    def __init__(
        self, setting: Exception | None = None, driver: Exception | None = None, is_configured: bool = False
    ) -> None:
        self._is_configured = is_configured
        self.told: list[bool] = []
        self.allocations = 0
        self._setting, self._driver = setting, driver

    def is_configured(self) -> bool:
        return self._is_configured

    def expand_segments(self, is_wanted: bool) -> None:
        if self._setting:
            raise self._setting
        self.told.append(is_wanted)

    def allocate(self) -> None:
        self.allocations += 1
        if self._driver:
            raise self._driver


def test_segments_grow_where_a_new_one_can_be_allocated() -> None:
    allocator = Allocator()
    assert try_expanding(allocator)
    assert (allocator.told, allocator.allocations) == ([True], 1)


def test_a_driver_that_refuses_gets_fixed_segments_again() -> None:
    allocator = Allocator(driver=RuntimeError("CUDA driver error: operation not supported"))
    assert not try_expanding(allocator)
    assert allocator.told == [True, False]


@pytest.mark.parametrize("error", [AttributeError("no such function"), RuntimeError("unknown option")])
def test_a_torch_without_the_setting_is_left_alone(error: Exception) -> None:
    assert not try_expanding(Allocator(setting=error))


def test_a_persons_own_setting_stays() -> None:
    allocator = Allocator(is_configured=True)
    assert not try_expanding(allocator)
    assert (allocator.told, allocator.allocations) == ([], 0)


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_torch_is_set_up_by_variables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = TorchAllocator(torch.device("cpu"))
    for each in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        monkeypatch.delenv(each, raising=False)
    assert not allocator.is_configured()
    monkeypatch.setenv(name, "max_split_size_mb:128")
    assert allocator.is_configured()


def test_a_cpu_has_no_segments() -> None:
    assert not expand_segments(torch.device("cpu"))


def test_torch_knows_the_setting() -> None:
    TorchAllocator(torch.device("cpu")).expand_segments(False)
