"""Allocates memory for weights, on Linux in huge pages (2 MiB instead of 4 KiB) if the kernel has them.

A step reads all weights once, and the processor looks up the address of each page. With fewer and larger pages
a quantised model's step of one row takes up to a third less time (docs/notes/2026-11-benchmarks.md).
"""

import mmap
import threading
from collections.abc import Iterable
from contextlib import suppress
from math import prod

import torch
from torch import Tensor, nn

HUGE_PAGE = 2**21
CHUNK = 2**26
"""Minimum number of bytes requested at a time, because weights may be smaller than a huge page. Pages that are
never written take no memory."""
ALIGNED = 64
"""Tensors begin at multiples of this many bytes, the length of a line in the processor's cache."""


class HugePages:
    """Allocates tensors one after the other, on any thread. A chunk of memory is freed with the last of its
    tensors."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free = torch.empty(0, dtype=torch.uint8)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Take memory for a tensor from the newest chunk, or from a new one. The tensor's values are undefined."""
        count = prod(shape) * dtype.itemsize
        size = -(-count // ALIGNED) * ALIGNED
        with self._lock:
            if size > len(self._free):
                self._free = _chunk(max(size, CHUNK))
            taken, self._free = self._free[:count], self._free[size:]
        return taken.view(dtype).view(shape)

    def move(self, modules: Iterable[nn.Module]) -> None:
        """Move the modules' own buffers into this memory. Buffers that share a tensor still share one."""
        moved: dict[tuple[object, ...], Tensor] = {}
        for module in modules:
            for name, values in list(module.named_buffers(recurse=False)):
                key = (values.data_ptr(), values.shape, values.dtype)
                if key not in moved:
                    moved[key] = self.empty(tuple(values.shape), values.dtype).copy_(values)
                setattr(module, name, moved[key])


def _chunk(size: int) -> Tensor:
    if not hasattr(mmap, "MADV_HUGEPAGE"):  # not Linux
        return torch.empty(size, dtype=torch.uint8)
    memory = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    begin = -whole.data_ptr() % HUGE_PAGE
    return whole[begin : begin + size]
