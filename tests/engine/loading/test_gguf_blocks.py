"""The numbers and scales of a GGUF file's blocks are those that llama.cpp's own package finds, to the last bit."""

from dataclasses import replace

import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize

from app.engine.cpu_kernels import packed_kernels
from app.engine.layers.packed_layers import dense
from app.engine.layers.packed_weight import CpuPacker
from app.engine.loading.gguf_blocks import READERS, read_blocks
from app.values.gguf_header import BLOCKS, KEPT_BITS

SIZES = {name: (numbers, size) for name, numbers, size in BLOCKS.values()}


def test_each_kept_type_has_a_reader() -> None:
    assert READERS.keys() == KEPT_BITS.keys()


@pytest.mark.skipif(packed_kernels() is None, reason="there is no C compiler here")
@pytest.mark.parametrize("name", KEPT_BITS)
def test_packed_blocks_are_dequantised_to_the_same_bits(name: str) -> None:
    numbers, size = SIZES[name]
    blocks = 1536 // numbers
    rows = np.random.default_rng(0).integers(0, 256, (64, blocks * size), dtype=np.uint8)
    with np.errstate(all="ignore"):  # random scales may be infinite, or no numbers
        expected = dequantize(rows, gguf.GGMLQuantizationType[name])
    halves = (read_blocks(name, torch.from_numpy(part)) for part in (rows[:48], rows[48:]))
    packed = CpuPacker()((64, blocks * numbers), halves)
    found = dense(packed).numpy()
    is_same = found.view(np.int32) == expected.view(np.int32)
    assert (is_same | (np.isnan(found) & np.isnan(expected))).all()
    assert sum(part.nbytes for part in packed.parts.values()) * 8 / found.size == pytest.approx(
        KEPT_BITS[name], abs=0.01
    )


@pytest.mark.skipif(packed_kernels() is None, reason="there is no C compiler here")
@pytest.mark.parametrize("name", KEPT_BITS)
def test_torch_unpacks_the_numbers_that_the_c_kernel_unpacks(name: str) -> None:
    numbers, size = SIZES[name]
    rows = np.random.default_rng(0).integers(0, 256, (40, 1280 // numbers * size), dtype=np.uint8)
    read = read_blocks(name, torch.from_numpy(rows))
    by_kernel, by_torch = (
        CpuPacker()((40, 1280), [one]).parts for one in (read, replace(read, stored=read.values))
    )
    assert torch.equal(by_kernel["numbers"], by_torch["numbers"])
