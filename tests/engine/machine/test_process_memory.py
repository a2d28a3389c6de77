"""One heap for all threads, segments that grow where the driver allows it, and memory that ran out."""

import platform

import pytest
import torch

from app.engine.machine.process_memory import (
    ALLOCATOR_VARIABLES,
    expand_segments,
    is_out_of_memory,
    release_memory,
    resident_bytes,
    return_freed_memory,
    share_one_heap,
)  # fmt: skip

CUDA = torch.device("cuda")


def test_glibc_can_be_told_and_no_system_minds_being_asked() -> None:
    assert share_one_heap() == (platform.libc_ver()[0] == "glibc")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc keeps freed memory")
def test_memory_that_is_freed_below_used_memory_is_given_back() -> None:
    blocks = [bytearray(b"x" * 100_000) for _ in range(1000)]
    used = bytearray(b"x" * 100_000)
    blocks.clear()
    before = resident_bytes()
    assert return_freed_memory()
    assert resident_bytes() < before - 50_000_000 and used


@pytest.mark.parametrize("status", ["CUBLAS_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED"])
def test_cublas_without_room_for_its_handle_is_memory_that_ran_out(status: str) -> None:
    assert is_out_of_memory(RuntimeError(f"CUDA error: {status} when calling `cublasCreate(handle)`"))
    assert not is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"))


def test_an_allocator_that_may_not_ask_how_much_was_left_has_run_out_of_memory() -> None:
    words = 'NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/CUDACachingAllocator.cpp":1154'
    assert is_out_of_memory(RuntimeError(words))


class PaperCuda:
    """torch.cuda of a machine with a card, which this process has used or not."""

    def __init__(self, is_used: bool) -> None:
        self.is_used = is_used
        self.calls: list[str] = []

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return self.is_used

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def empty_cache(self) -> None:
        self.calls.append("empty_cache")

    def reset_peak_memory_stats(self) -> None:
        self.calls.append("reset_peak_memory_stats")


def test_a_process_that_runs_on_the_cpu_gets_no_cuda_context() -> None:
    unused, used = PaperCuda(False), PaperCuda(True)
    for cuda in (unused, used):
        release_memory(cuda)
    assert (unused.calls, used.calls[:2]) == ([], ["synchronize", "empty_cache"])


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What torch's allocator was told, on Linux with CUDA, without a setting of the person."""
    told: list[str] = []
    for name in ALLOCATOR_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", told.append, raising=False)
    monkeypatch.setattr(torch, "empty", lambda *_size, **_given: None)
    return told


def test_segments_grow_where_a_new_one_can_be_allocated(settings: list[str]) -> None:
    assert expand_segments(CUDA)
    assert settings == ["expandable_segments:True"]


def test_a_driver_that_refuses_gets_fixed_segments_again(
    settings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_size: int, **_given: object) -> None:
        raise RuntimeError("CUDA driver error: operation not supported")

    monkeypatch.setattr(torch, "empty", refused)
    assert not expand_segments(CUDA)
    assert settings == ["expandable_segments:True", "expandable_segments:False"]


@pytest.mark.parametrize("error", [AttributeError("no such function"), RuntimeError("unknown option")])
def test_a_torch_without_the_setting_is_left_alone(
    settings: list[str], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_setting: str) -> None:
        raise error

    monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", unknown)
    assert not expand_segments(CUDA)
    assert settings == []


@pytest.mark.parametrize("name", ALLOCATOR_VARIABLES)
def test_a_persons_own_setting_stays_and_a_cpu_has_no_segments(
    settings: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not expand_segments(torch.device("cpu"))
    monkeypatch.setenv(name, "max_split_size_mb:128")
    assert not expand_segments(CUDA)
    assert settings == []
