"""Memory of this process: recognising that it ran out, giving it back, measuring it, and how it is allocated.

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
    "failed to map segment",  # a library that did not get in
    "can't start new thread",  # because there is no room for its stack
    "cublas_status_alloc_failed",
    UNINITIALISED,  # its handle found no room
    # If a driver does not tell how much was left, as on a part of a card (MIG), torch's report that memory ran out
    # fails: https://github.com/pytorch/pytorch/issues/112377
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
    """Whether cuBLAS could not start: mostly because memory is short, but a broken driver gives the same error."""
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
    """Free cuBLAS's workspaces: each stream takes another when it needs one."""
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


ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
TRIAL_BYTES = 32 << 20
"""More than the allocator's small segments, so that the driver is asked."""


def expand_segments(device: "torch.device") -> bool:
    """Have the segments of CUDA's allocator grow on Linux: a KV cache that is made anew leaves no holes then.

    With fixed segments a freed buffer serves only what is as small or smaller, so that each larger one is reserved
    on top. Returns whether segments grow by this: the person may have set torch's allocator up, and some drivers,
    such as those of virtual cards, refuse it."""
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
    """Return the process's resident memory now; 0 if the system does not report it."""
    return _kilobytes("VmRSS") << 10


def peak_bytes() -> int:
    """Return the peak since `restart_peak`; 0 if the system does not report it."""
    return _kilobytes("VmHWM") << 10


def address_space() -> int:
    """Return the bytes of address space that the process has taken; 8 GB if the system does not report it."""
    return (_kilobytes("VmSize") << 10) or 8 * 2**30


def address_space_left() -> int:
    """Return the bytes of address space that the process may still take; a very large number without a limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    taken = _kilobytes("VmSize") << 10
    return limit - taken if taken and limit != resource.RLIM_INFINITY else sys.maxsize


def restart_peak() -> None:
    """Restart the measurement of the peak, if the system supports that."""
    with suppress(OSError):
        _RESET.write_text("5", encoding="ascii")


def _kilobytes(key: str) -> int:
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), 0)
