"""Memory of this process: recognising that it ran out, giving it back, measuring it, and one heap for all threads.

Known without torch.
"""

import ctypes
import gc
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

UNINITIALISED = "cublas_status_not_initialized"

WORDS = (
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "bad_alloc",
    "failed to map segment",  # a library that did not get in
    "can't start new thread",  # for want of a stack
    "cublas_status_alloc_failed",
    UNINITIALISED,  # its handle found no room
    # Where a driver does not tell how much was left, as on a part of a card (MIG), torch's report that memory ran
    # out fails: https://github.com/pytorch/pytorch/issues/112377
    "nvml_success ==",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out. torch's own error for CUDA is recognised by its words, too."""
    if isinstance(error, MemoryError):
        return True
    # Of what a file says in its own words only the type is known; these come from the system and from torch.
    is_ours = isinstance(error, RuntimeError | OSError | ImportError)
    return is_ours and any(words in str(error).lower() for words in WORDS)


def is_uninitialised(error: BaseException) -> bool:
    """Whether cuBLAS could not begin: mostly for want of memory, but a broken driver or library says the same."""
    return UNINITIALISED in str(error).lower()


def release_memory(cuda: Any = None) -> None:
    """Free unused memory, and cuBLAS's workspace: each stream that was ever used has one.

    `cuda` is torch.cuda. A process that has not used it yet is left without a context, which takes memory."""
    import torch  # not before there is a model: whoever recognises errors may have failed to import it

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
    """Let go of cuBLAS's workspaces: each stream takes another where it needs one."""
    import torch

    if clear := getattr(torch._C, "_cuda_clearCublasWorkspaces", None):  # only where torch has CUDA
        clear()


M_ARENA_MAX = -8
"""glibc's number for the setting, from malloc.h."""


def share_one_heap() -> bool:
    """Have all threads share one heap; returns whether the C library supports that."""
    try:
        return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1) == 1)
    except (OSError, AttributeError, TypeError):  # Windows, macOS, musl
        return False


_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    """The process's resident memory now; 0 where the system does not report it."""
    return _kilobytes("VmRSS") << 10


def peak_bytes() -> int:
    """Its peak since `restart_peak`; 0 where the system does not report it."""
    return _kilobytes("VmHWM") << 10


def address_space() -> int:
    """Bytes of address space that the process has taken; 8 GB where the system does not report it."""
    return (_kilobytes("VmSize") << 10) or 8 * 2**30


def address_space_left() -> int:
    """Bytes of address space that the process may still take; a very large number without a limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    taken = _kilobytes("VmSize") << 10
    return limit - taken if taken and limit != resource.RLIM_INFINITY else sys.maxsize


def restart_peak() -> None:
    """Restart the measurement of the peak, where the system supports that."""
    with suppress(OSError):
        _RESET.write_text("5", encoding="ascii")


def _kilobytes(key: str) -> int:
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), 0)
