"""One heap for all threads.

glibc gives each thread a heap of its own, in pieces of 64 MB that large tensors of growing sizes leave full of
holes. The thread that owns the model pays for that: 0.5B weights in float32 with 8,192 tokens took 4.8 GB where one
heap for all takes 3.8 GB. It takes effect for threads that start later.
"""

import ctypes

M_ARENA_MAX = -8
"""glibc's number for the setting, from malloc.h."""


def share_one_heap() -> bool:
    """Have all threads share one heap; whether this system's C library can be told so."""
    try:
        return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1) == 1)
    except (OSError, AttributeError, TypeError):  # Windows, macOS, musl
        return False
