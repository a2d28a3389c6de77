"""An embedding of 8-bit rows, each with its scale. A head that is tied to it shares the numbers."""

from typing import Any

import torch
from torch import Tensor, nn

from app.engine.quantised_linear import Numbers

TRIED = (0, 1, 2, 5)
"""Tokens that are looked up in both, before one takes the other's place."""


class QuantisedEmbedding(nn.Module):
    """Looks rows up, [...] ids to [..., size]. `factor` is what some models scale their embeddings with."""

    values: Tensor
    scale: Tensor

    def __init__(self, numbers: Numbers, dtype: torch.dtype, factor: Tensor | float = 1.0) -> None:
        super().__init__()
        self.register_buffer("values", numbers.values)
        self.register_buffer("scale", numbers.scale.to(dtype))
        self._factor = torch.as_tensor(factor).to(self.scale)

    @property
    def numbers(self) -> Numbers:
        """What a tied head multiplies by; the tensors are shared."""
        return Numbers(self.values, self.scale, torch.zeros_like(self.scale))

    def forward(self, ids: Tensor) -> Tensor:
        """Rows in the precision of the activations."""
        return self.values[ids] * self.scale[ids] * self._factor


def stands_for(table: QuantisedEmbedding, embedding: Any) -> bool:
    """Whether the table looks up what the embedding does: some models' embeddings do more than that."""
    ids = torch.tensor(TRIED)
    expected, found = embedding(ids.to(embedding.weight.device)), table(ids.to(table.values.device))
    if expected.shape != found.shape:
        return False
    step = expected.abs().amax(-1, keepdim=True) / 64  # rows are off by half a step of 1/127 of their largest
    return bool(((found.to(expected) - expected).abs() <= step).all())
