"""Recognising that memory ran out: CUDA has a type for it, the CPU only words."""

import torch

_WORDS = ("not enough memory", "can't allocate memory", "out of memory")


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in _WORDS)
