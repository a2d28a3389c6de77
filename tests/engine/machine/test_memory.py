"""The setting that keeps threads from having heaps of their own, and what is known of memory that ran out."""

import platform

import pytest

from app.engine.machine.memory import is_out_of_memory, release_memory, share_one_heap


def test_glibc_can_be_told_and_no_system_minds_being_asked() -> None:
    assert share_one_heap() == (platform.libc_ver()[0] == "glibc")


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
