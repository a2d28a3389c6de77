"""Weights' memory: what is stored there stays, tensors do not overlap, and Linux backs it with huge pages."""

import mmap
from pathlib import Path

import pytest
import torch
from torch import nn

from app.engine.machine.huge_pages import ALIGNED, CHUNK, HUGE_PAGE, HugePages

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def test_tensors_of_all_sizes_and_types_keep_their_values() -> None:
    memory, source = HugePages(), torch.Generator().manual_seed(0)
    shapes = [((3, 5), torch.int8), ((0, 4), torch.float32), ((CHUNK // 3,), torch.uint8), ((7,), torch.float16),
              ((CHUNK // 2,), torch.int16), ((1, 2, 3), torch.float64)] * 2  # fmt: skip
    expected = [torch.randint(0, 100, shape, generator=source).to(dtype) for shape, dtype in shapes]
    found = [memory.empty(shape, dtype) for shape, dtype in shapes]
    for one, values in zip(found, expected, strict=True):
        one.copy_(values)
    assert all(torch.equal(one, values) for one, values in zip(found, expected, strict=True))
    assert all(one.data_ptr() % ALIGNED == 0 for one in found if one.numel())


def test_tensors_outlive_the_object_that_allocated_them() -> None:
    kept = HugePages().empty((1000,), torch.int64).fill_(7)
    HugePages().empty((CHUNK,), torch.uint8).fill_(1)
    assert torch.equal(kept, torch.full((1000,), 7))


def test_a_modules_buffers_are_moved_and_its_parameters_are_not() -> None:
    module = nn.BatchNorm1d(4)
    module.running_mean = torch.arange(4.0)
    before, weight = module.running_mean.data_ptr(), module.weight
    HugePages().move([module])
    assert module.running_mean.data_ptr() != before and torch.equal(module.running_mean, torch.arange(4.0))
    assert module.weight is weight and set(dict(module.named_buffers())) == set(
        dict(nn.BatchNorm1d(4).named_buffers())
    )


def test_buffers_that_are_one_tensor_remain_one() -> None:
    modules = [nn.BatchNorm1d(4), nn.BatchNorm1d(4)]
    modules[0].running_mean = modules[1].running_mean = torch.arange(4.0)
    HugePages().move(modules)
    assert modules[0].running_mean is modules[1].running_mean


@pytest.mark.skipif(
    not THP.exists() or "[never]" in THP.read_text(),
    reason="this system has no huge pages for memory that asks",
)
def test_linux_backs_written_memory_with_huge_pages() -> None:
    def huge() -> int:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages")) * 1024

    before = huge()
    kept = HugePages().empty((8 * HUGE_PAGE,), torch.uint8).fill_(1)
    assert huge() - before >= len(kept) // 2


def test_a_system_without_huge_pages_has_ordinary_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert torch.equal(HugePages().empty((2, 3), torch.float32).fill_(2), torch.full((2, 3), 2.0))
