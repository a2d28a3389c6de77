"""Recognising that memory ran out, which many libraries say in words alone, and giving it back."""

import gc

WORDS = (
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "bad_alloc",
    "failed to map segment",  # a library that did not get in
    "can't start new thread",  # for want of a stack
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; torch's own for CUDA says it in words, too."""
    if isinstance(error, MemoryError):
        return True
    # Of what a file says in its own words only the type is known; these come from the system and from torch.
    is_ours = isinstance(error, RuntimeError | OSError | ImportError)
    return is_ours and any(words in str(error).lower() for words in WORDS)


def release_memory() -> None:
    """Give back what nobody uses any more, and cuBLAS's work space: each stream ever used has one of its own."""
    import torch  # not before there is a model: whoever recognises errors may have failed to import it

    gc.collect()
    if not torch.cuda.is_available():
        return
    torch.cuda.synchronize()
    if clear := getattr(torch._C, "_cuda_clearCublasWorkspaces", None):
        clear()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
