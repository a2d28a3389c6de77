"""Recognises errors of full memory, frees and measures this process's memory, and sets up its allocators.

Importing this does not import torch.
"""

import ctypes
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

UNINITIALISED = "cublas_status_not_initialized"

WORDS = (
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "bad_alloc",
    "failed to map segment",  # a library that could not be loaded
    "can't start new thread",  # there is no room for the thread's stack
    "cublas_status_alloc_failed",
    UNINITIALISED,  # there was no memory for cuBLAS's handle
    # torch's own report fails if the driver cannot tell how much memory is left, as on a part of a GPU (MIG):
    # https://github.com/pytorch/pytorch/issues/112377
    "nvml_success ==",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, by its type (MemoryError) or by its words."""
    if isinstance(error, MemoryError):
        return True
    # Words are searched only in errors of the system and of torch, because errors of other types may quote a file.
    is_searched = isinstance(error, RuntimeError | OSError | ImportError)
    return is_searched and any(words in str(error).lower() for words in WORDS)


def is_uninitialised(error: BaseException) -> bool:
    """Return whether cuBLAS could not start, which means that memory ran out or that the driver is broken."""
    return UNINITIALISED in str(error).lower()


def release_memory(cuda: Any = None) -> None:
    """Free unused memory and cuBLAS's workspaces, and restart CUDA's measurement of the peak.

    `cuda` is torch.cuda by default. If the process has not used CUDA yet, no context is created."""
    import torch  # here, because errors must be recognised even if torch cannot be imported

    gc.collect()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
    cuda = cuda or torch.cuda
    if not cuda.is_initialized():
        return
    cuda.synchronize()
    clear_workspaces()
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()


def clear_workspaces() -> None:
    """Free the workspaces of cuBLAS on all streams; a stream allocates a new workspace when it needs one."""
    import torch

    if clear := getattr(torch._C, "_cuda_clearCublasWorkspaces", None):  # only if torch has CUDA
        clear()


M_ARENA_MAX = -8
"""glibc's number for the setting, from malloc.h."""


def share_one_heap() -> bool:
    """Make all threads allocate from one malloc arena; return whether the C library supports that."""
    try:
        return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1) == 1)
    except (OSError, AttributeError, TypeError):  # Windows, macOS, musl
        return False


def return_freed_memory() -> bool:
    """Give freed memory that glibc keeps between used memory back to the system; return whether there was any."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError, TypeError):  # Windows, macOS, musl
        return False


ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
TRIAL_BYTES = 32 << 20
"""Bytes of a trial allocation: more than the allocator's pooled segments, so that torch asks the driver."""


def expand_segments(device: "torch.device") -> bool:
    """Let the segments of CUDA's allocator grow on Linux. Return whether that succeeded.

    A fixed segment can be reused only for buffers of its size or smaller, so each larger KV cache would take
    further memory. Nothing is changed if the user has set up torch's allocator, or if the driver refuses growing
    segments, as the drivers of some virtual GPUs do."""
    import torch

    if device.type != "cuda" or sys.platform != "linux" or torch.version.cuda is None:
        return False
    if any(os.environ.get(name) for name in ALLOCATOR_VARIABLES):
        return False
    try:
        _set_expandable(True)
        torch.empty(TRIAL_BYTES, dtype=torch.uint8, device=device)
    except (RuntimeError, AttributeError):
        with suppress(RuntimeError, AttributeError):  # a torch without the setting: nothing was changed
            _set_expandable(False)
        return False
    return True


def _set_expandable(is_wanted: bool) -> None:
    import torch

    torch._C._accelerator_setAllocatorSettings(f"expandable_segments:{is_wanted}")


_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    """Return the bytes of the process's resident memory; 0 if the system does not report them."""
    return _kilobytes("VmRSS") << 10


def peak_bytes() -> int:
    """Return the peak of the process's resident bytes since `restart_peak`; 0 if the system does not report it."""
    return _kilobytes("VmHWM") << 10


def address_space_left() -> int:
    """Return how many more bytes of address space may be taken; sys.maxsize without a known limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    taken = _kilobytes("VmSize") << 10
    return limit - taken if taken and limit != resource.RLIM_INFINITY else sys.maxsize


def restart_peak() -> None:
    """Restart the measurement of peak memory, if the system supports that."""
    with suppress(OSError):
        _RESET.write_text("5", encoding="ascii")


def _kilobytes(key: str) -> int:
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), 0)
