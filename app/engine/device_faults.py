"""Faults after which a CUDA context runs nothing any more: only a new process does. Known without torch."""

from app.engine.memory import is_out_of_memory

WORDS = (
    "illegal memory access",
    "illegal address",
    "illegal instruction",
    "misaligned address",
    "invalid program counter",
    "invalid address space",
    "hardware stack error",
    "device-side assert",
    "unspecified launch failure",
    "launch timed out",
    "uncorrectable ecc error",
)
"""As the driver calls them, whether torch or Triton reports it."""


def is_device_fault(error: BaseException) -> bool:
    """Whether an error says that the process has lost its CUDA device."""
    text = str(error).lower()
    return "cuda" in text and any(words in text for words in WORDS)


def is_no_verdict(error: BaseException) -> bool:
    """Whether an error says nothing about what was tried: memory ran out, or the device is lost."""
    return is_out_of_memory(error) or is_device_fault(error)
