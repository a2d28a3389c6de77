"""The `native` backend: attention over a block by our own C kernel for CPUs.

It makes neither a mask nor a matrix of scores over the context, and a row's result depends, to the last bit, only
on the text before the row. Layers with a window, a soft cap or sinks, and blocks of many rows, use `sdpa`.
"""

from ctypes import CDLL

import torch
from torch import Tensor

from app.engine.attention.signature import Attend, BlockView, LayerCache, Scoring

MAX_ROWS = 128
"""Maximum number of rows for the kernel. With more rows, as in a prompt's chunks, torch's kernel is faster."""
TILE, SPAN = 32, 8
"""Keys per tile and tiles per span, as in attention.h."""


class NativeAttention:
    """Attention in float32 on CPUs, with the library's kernel if it supports the case."""

    def __init__(self, library: CDLL, other: Attend) -> None:
        """Use this library; `other` attends in the cases that its kernel does not support."""
        self._library = library
        self._other = other

    def __call__(self, query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        keys, values = cache
        is_dense = keys.stride(2) == keys.shape[3] and values.stride(2) == values.shape[3]
        if not (
            scoring.is_plain
            and is_dense
            and query.shape[2] <= MAX_ROWS
            and query.dtype == keys.dtype == values.dtype == torch.float32
            and query.stride(3) == 1
            and keys.shape[3] % 8 == values.shape[3] % 8 == 0
        ):
            return self._other(query, cache, view, scoring)
        (_, heads, rows, size), value_size = query.shape, values.shape[3]
        prefix, visible = view.prefix_length, view.visible
        spans = -(-(prefix // TILE) // SPAN)
        out = torch.empty((1, rows, heads, value_size))
        room = torch.empty(spans * heads * rows * (2 + value_size))
        partial = room.data_ptr() + 8 * spans * heads * rows
        self._library.attend(
            query.data_ptr(), query.stride(1), query.stride(2), keys.data_ptr(), keys.stride(1),
            values.data_ptr(), values.stride(1), prefix, rows, heads, keys.shape[1], size, value_size,
            scoring.scale, visible.ctypes.data, room.data_ptr(), partial, out.data_ptr(),
            torch.get_num_threads(),
        )  # fmt: skip
        return out
