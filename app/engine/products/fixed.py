"""Launches our product, and puts it in a Linear's place. Needs triton: imported only where it is used."""

from dataclasses import dataclass
from math import prod
from typing import Protocol

import torch
from torch import Tensor, nn

from app.engine.products.kernels import product_kernel
from app.engine.products.tiles import COLUMNS, MOST_ROWS, Card, Parts, Tile, choose_parts, choose_tile, inner


class Product(Protocol):
    """States [rows, K], weight [N, K] and a bias [N] or None to [rows, N]."""

    def __call__(self, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Every row's bits are its own."""


class FixedProduct:
    """The kernel on one device. `tickets` is shared by all products of a model: they run one behind the other."""

    def __init__(self, card: Card, device: torch.device) -> None:
        self._card = card
        # K is cut only where there are fewer tiles than multiprocessors; 64 is the fewest rows of a tile where
        # there may be several, but in float32, where there may be eight.
        most = card.multiprocessors * (MOST_ROWS // 16)
        self._tickets = torch.zeros(most, dtype=torch.int32, device=device)

    def __call__(self, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """As many rows at once as a block may have."""
        states = states if states.stride(-1) == 1 else states.contiguous()
        out = states.new_empty((len(states), len(weight)))
        parts = choose_parts(len(weight), states.shape[1], weight.element_size(), self._card)
        tile = choose_tile(len(states), weight.element_size(), self._card)
        for first in range(0, len(states), MOST_ROWS):
            some = slice(first, first + MOST_ROWS)
            self._launch(states[some], weight, bias, out[some], parts, tile)
        return out

    def _launch(
        self, states: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, parts: Parts, tile: Tile
    ) -> None:
        rows, (outs, ins) = len(states), weight.shape
        block = inner(weight.element_size())
        grid = (-(-rows // tile.rows), -(-outs // COLUMNS), parts.count)
        room = prod(grid) * tile.rows * COLUMNS if parts.count > 1 else 1
        product_kernel[grid](
            states,
            weight,
            weight if bias is None else bias,
            out,
            torch.empty(room, dtype=torch.float32, device=out.device),
            self._tickets,
            rows,
            outs,
            ins,
            states.stride(0),
            parts.span,
            HAS_BIAS=bias is not None,
            PARTS=parts.count,
            EVEN=ins % block == 0,
            BLOCK_M=tile.rows,
            BLOCK_N=COLUMNS,
            BLOCK_K=block,
            num_warps=tile.warps,
            num_stages=tile.stages,
            enable_fp_fusion=False,
        )


@dataclass(frozen=True, slots=True)
class Interpreted:
    """The kernel in triton's interpreter, for tests: it takes bfloat16's bits for integers, so that is widened."""

    product: FixedProduct

    def __call__(self, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """As the kernel does, rounded at the end."""
        if states.dtype != torch.bfloat16:
            return self.product(states, weight, bias)
        wide = None if bias is None else bias.float()
        return self.product(states.float(), weight.float(), wide).to(states.dtype)


def on_device(card: Card, device: torch.device) -> Product:
    """The product as this device can run it."""
    product = FixedProduct(card, device)
    return product if device.type == "cuda" else Interpreted(product)


class FixedLinear(nn.Module):
    """A Linear by another product. It shares the Linear's weight and bias."""

    def __init__(self, linear: nn.Linear, product: Product) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self._product = product

    def forward(self, states: Tensor) -> Tensor:
        """[..., in] to [..., out]."""
        rows = states.reshape(-1, self.in_features)
        product = self._product(rows, self.weight, self.bias)
        return product.view(*states.shape[:-1], self.out_features)
