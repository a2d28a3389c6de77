"""Reads the quantised matrices of a GGUF file that stay packed.

A matrix is read from the mapped file some rows at a time, so that it is never in memory as floats.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedConfig

from app.engine.layers.packed_weight import SLICE, Numbers
from app.engine.loading.gguf_blocks import read_blocks
from app.engine.loading.gguf_changes import ROW_CHANGES, undo
from app.values.gguf_architectures import Change
from app.values.gguf_header import GgufTensor, kept_bits

AT_ONCE = 2**19
"""Numbers that are unpacked at a time, few enough for the processor's cache."""


def packed_slices(
    parts: tuple[GgufTensor, ...],
    changes: tuple[Change, ...],
    config: PreTrainedConfig,
    shape: tuple[int, int],
) -> Iterator[Numbers]:
    """Yield slices of a matrix's rows, without the converter's changes; its tensors are joined by their rows."""
    mapped = [_mapped(part) for part in parts]
    rows = undo(torch.cat(mapped) if len(mapped) > 1 else mapped[0], changes, config)
    count = max(1, AT_ONCE // shape[1] // SLICE) * SLICE
    for some in torch.split(rows, count):
        yield read_blocks(parts[0].stored, some.contiguous())


def _mapped(tensor: GgufTensor) -> Tensor:
    """Map the bytes of a tensor's rows into memory: [rows, bytes]."""
    shape = (tensor.shape[0], tensor.size // tensor.shape[0])
    # Copied on writing, because torch warns of memory that cannot be written.
    return torch.from_numpy(np.memmap(tensor.file, np.uint8, "c", tensor.begin, shape))


def can_keep(parts: tuple[GgufTensor, ...], changes: tuple[Change, ...]) -> bool:
    """Return whether a weight of these tensors can stay packed: of one type, and changes only move whole rows."""
    one_type = len({(part.stored, part.shape[1:]) for part in parts}) == 1
    return one_type and bool(kept_bits(parts[0].stored, parts[0].shape)) and set(changes) <= ROW_CHANGES
