"""A Linear with weights of 8 bits and our own kernel for GPUs, which reads the weight row by row. Needs triton.

torch's kernel for CUDA gives each thread one value of the product, so that neighbouring threads read distant
rows. Here a program computes a tile of the product. It reads whole pieces of the weight's rows, widens them in
registers to the type of the states, multiplies (on the matrix unit, except in float32), and scales the sum at the
end, because a row of the weight has one scale. A row's sum is added in pieces along the row, in an order that does
not depend on other rows.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from app.engine.layers.quantised_layers import TiledInt8Linear

FEW_ROWS = 128
"""The most rows for the kernel. With more, each dequantised tile serves many, and torch's product is faster."""

COLUMNS = 32
"""Rows of the weight per program: a weight of 4,096 rows keeps 128 multiprocessors busy."""

PIECE = 256
"""Bytes of each row of states that are multiplied at a time."""


@triton.jit(do_not_specialize=["rows"])
def int8_product_kernel(
    states, values, scale, out, rows, columns,
    SIZE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Compute a tile of `out`: states [rows, SIZE] times values [columns, SIZE] transposed, times scale
    [columns]."""
    column = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    is_row, is_column = row < rows, column < columns
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, SIZE, BLOCK_K):
        place = start + tl.arange(0, BLOCK_K)
        is_in = place < SIZE
        given = tl.load(
            states + row[:, None].to(tl.int64) * SIZE + place[None, :],
            mask=is_row[:, None] & is_in[None, :],
            other=0.0,
        )
        weight = tl.load(
            values + column[None, :].to(tl.int64) * SIZE + place[:, None],
            mask=is_column[None, :] & is_in[:, None],
            other=0,
        )
        total += tl.dot(given, weight.to(given.dtype), input_precision="ieee")
    factor = tl.load(scale + column, mask=is_column, other=0.0).to(tl.float32)
    tl.store(
        out + row[:, None].to(tl.int64) * columns + column[None, :],
        (total * factor[None, :]).to(out.dtype.element_ty),
        mask=is_row[:, None] & is_column[None, :],
    )


def tile_rows(rows: int, itemsize: int) -> int:
    """Return how many rows of states one program takes, given all rows and the bytes of a value."""
    # Float32 is multiplied without matrix units, so larger tiles would not fit the registers.
    return 16 if rows <= 16 or itemsize == 4 else 32 if rows <= 32 else 64


def int8_product(states: Tensor, values: Tensor, scale: Tensor) -> Tensor:
    """Multiply states [rows, in] by values [out, in] transposed and by scale [out]."""
    rows, size = states.shape
    columns = len(values)
    out = torch.empty((rows, columns), dtype=states.dtype, device=states.device)
    tile = tile_rows(rows, states.element_size())
    int8_product_kernel[(-(-columns // COLUMNS), -(-rows // tile))](
        states.contiguous(), values, scale, out, rows, columns, SIZE=size, BLOCK_M=tile, BLOCK_N=COLUMNS,
        BLOCK_K=PIECE // states.element_size(), num_warps=4, num_stages=4,
    )  # fmt: skip
    return out


class TritonInt8Linear(TiledInt8Linear):
    """Uses our kernel for up to FEW_ROWS rows, and dequantised tiles for more."""

    def multiply(self, states: Tensor) -> Tensor:
        """Multiply few rows in one launch, and more rows tile by tile."""
        if len(states) > FEW_ROWS:
            return super().multiply(states)
        return int8_product(states, self.values, self.scale.view(-1))
