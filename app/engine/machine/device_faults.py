"""Recognises errors of the machine, and writes the sentences that report them, without importing torch."""

import logging
import re
from collections.abc import Callable
from subprocess import CalledProcessError
from traceback import clear_frames

from app.engine.machine.process_memory import is_out_of_memory, is_uninitialised, release_memory
from app.errors import AppError, EngineClosed, LoadCancelled, ModelTooLarge, first_line

log = logging.getLogger(__name__)

ENDED = (LoadCancelled, EngineClosed)
"""Raised when the user cancels a load or closes the app."""
WORDS = (
    "illegal memory access",
    "illegal address",
    "illegal instruction",
    "misaligned address",
    "invalid program counter",
    "operation not supported on global/shared address space",
    "hardware stack error",
    "device-side assert triggered",  # torch mentions device-side assertions in its hints on all errors
    "unspecified launch failure",
    "launch timed out",
    "uncorrectable ecc error",
    "gpu is lost",
    ": unknown error",  # after "CUDA error", "CUDA driver error" or "Triton Error [CUDA]"
    "cublas_status_execution_failed",
    "cublas_status_internal_error",
)
"""Words of the errors after which the device is lost, whether torch or Triton reports them."""


def is_device_fault(error: BaseException) -> bool:
    """Return whether an error means that the process has lost its CUDA device."""
    text = str(error).lower()
    return "cuda" in text and any(words in text for words in WORDS)


def is_no_verdict(error: BaseException) -> bool:
    """Return whether an error proves nothing about what was tried, because memory ran out, the device is lost, or
    the loading was ended."""
    return is_out_of_memory(error) or is_device_fault(error) or isinstance(error, ENDED)


def fault_found(trial: Callable[[], str]) -> str:
    """Run a trial; return its fault, or why it failed, or "". Raises an error for which `is_no_verdict` is true."""
    try:
        return trial()
    except Exception as error:  # packages, compilers and drivers raise errors of their own types
        if is_no_verdict(error):
            raise
        return refused_because(error)


def refused_because(error: BaseException) -> str:
    """Return why a trial raised this error, and free the trial's memory if memory ran out. Raises the error
    again if the device is lost or the loading was ended."""
    if is_device_fault(error) or isinstance(error, ENDED):
        raise error
    reason = reason_of(error)
    if is_out_of_memory(error):
        if error.__traceback__:
            clear_frames(error.__traceback__)  # the frames refer to the trial's tensors
        release_memory()
    return reason


def reason_of(error: BaseException) -> str:
    """Return the reason that an error of a kernel or its compiler gives, in at most 200 characters."""
    if is_out_of_memory(error) and not is_uninitialised(error):
        return "memory ran out"
    if isinstance(error, CalledProcessError):
        return "the C compiler failed: install gcc and Python's headers (python3-dev)"
    lines = str(error).strip().splitlines()
    # Triton's errors begin with a line and column of the kernel and end with what is wrong there.
    is_place = len(lines) > 1 and re.fullmatch(r"at \d+:\d+:", lines[0].strip())
    return (lines[-1].strip() if is_place else first_line(error))[:200]


def sentence_of(error: BaseException) -> str:
    """Return a sentence that reports an error to the user. Logs unexpected errors with their tracebacks."""
    if isinstance(error, AppError):
        return str(error)
    if is_uninitialised(error):
        log.exception("cuBLAS could not start", exc_info=error)
        return (
            f"The matrix library of the GPU could not start ({first_line(error)}): close other "
            "programs that use the GPU, then restart Foresight. If it fails again, choose --device cpu."
        )
    if is_out_of_memory(error):
        return str(
            ModelTooLarge(
                "Memory ran out: choose a smaller model, shorten the chat, or close other programs. Then try again."
            )
        )
    log.exception("a request failed", exc_info=error)
    if is_device_fault(error):
        return f"The GPU stopped working for this process ({first_line(error)}): restart Foresight."
    return f"Something went wrong inside Foresight ({type(error).__name__}: {error}): please try again."


def app_error(error: BaseException) -> AppError:
    """Turn any error into an AppError with a sentence for the user; an AppError is returned as it is."""
    return error if isinstance(error, AppError) else AppError(sentence_of(error))
