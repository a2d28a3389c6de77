"""Recognising that memory ran out (CUDA has a type for it, the CPU only words), and giving it back."""

import gc

import torch

_WORDS = ("not enough memory", "can't allocate memory", "out of memory")


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in _WORDS)


def release_memory() -> None:
    """Give back what nobody uses any more, and cuBLAS's work space: each stream ever used has one of its own."""
    gc.collect()
    if not torch.cuda.is_available():
        return
    torch.cuda.synchronize()
    if clear := getattr(torch._C, "_cuda_clearCublasWorkspaces", None):
        clear()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
