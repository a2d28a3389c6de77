"""What errors of a card mean, and what is said of them. Known without torch.

After some faults a CUDA context runs nothing any more: only a new process does.
"""

import re
from subprocess import CalledProcessError
from traceback import clear_frames

from app.engine.machine.memory import is_out_of_memory, is_uninitialised, release_memory
from app.errors import first_line

WORDS = (
    "illegal memory access",
    "illegal address",
    "illegal instruction",
    "misaligned address",
    "invalid program counter",
    "operation not supported on global/shared address space",
    "hardware stack error",
    "device-side assert",
    "unspecified launch failure",
    "launch timed out",
    "uncorrectable ecc error",
    "gpu is lost",
    ": unknown error",  # behind "CUDA error", "CUDA driver error" or "Triton Error [CUDA]"
    "cublas_status_execution_failed",
    "cublas_status_internal_error",
)
"""As the driver calls them, whether torch or Triton reports it."""


def is_device_fault(error: BaseException) -> bool:
    """Whether an error says that the process has lost its CUDA device."""
    text = str(error).lower()
    return "cuda" in text and any(words in text for words in WORDS)


def is_no_verdict(error: BaseException) -> bool:
    """Whether an error says nothing about what was tried: memory ran out, or the device is lost."""
    return is_out_of_memory(error) or is_device_fault(error)


def refused_because(error: BaseException) -> str:
    """Why what was tried is not used; raises the error again where the device is lost.

    Where memory ran out, what the trial took is freed: what is used instead may need less."""
    if is_device_fault(error):
        raise error
    reason = reason_of(error)
    if is_out_of_memory(error):
        if error.__traceback__:
            clear_frames(error.__traceback__)  # they hold the trial's tensors
        release_memory()
    return reason


def reason_of(error: BaseException) -> str:
    """Why a kernel could not be used, in at most 200 characters."""
    if is_out_of_memory(error) and not is_uninitialised(error):
        return "memory ran out"
    if isinstance(error, CalledProcessError):
        return "the C compiler failed: install gcc and Python's headers (python3-dev)"
    lines = str(error).strip().splitlines()
    # Triton's errors begin with a place in the kernel and end with what is wrong there.
    is_place = len(lines) > 1 and re.fullmatch(r"at \d+:\d+:", lines[0].strip())
    return (lines[-1].strip() if is_place else first_line(error))[:200]
