"""Faults after which a CUDA context runs nothing any more: only a new process does. Known without torch."""

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
