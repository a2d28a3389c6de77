"""Packs weights into the order in which the CPU's matrix kernels read them, once instead of in each step.

With one row, copying a Linear's weight into blocks takes oneDNN nearly as long as the product. In bfloat16 the
product stays bitwise identical. In float32 it may be rounded differently, because torch multiplies dense weights
with another library."""

import platform
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

SMALLEST = {torch.bfloat16: 2**14, torch.float32: 2**17}
"""Minimum number of values of a packed weight. For fewer, starting oneDNN's kernel takes longer than the copy."""

_ROWS = 16
"""The row count for which oneDNN chooses the blocks. Blocks for a single row would be slow for more rows."""

_TIED_SHARE = 1 / 3
"""A head that shares the embedding's weight gets a packed copy if the model grows by at most this share."""


class BlockedLinear(nn.Module):
    """A Linear whose weight is packed in blocks. Reading `weight` unpacks a copy."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.bias = linear.bias
        self._packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)
        self._multiply = torch.ops.mkldnn._linear_pointwise.default

    @property
    def weight(self) -> Tensor:
        return self._packed.to_dense()

    def forward(self, states: Tensor) -> Tensor:
        product: Tensor = self._multiply(states, self._packed, self.bias, "none", [], "")
        return product


@torch.inference_mode()
def pack_weights(model: PreTrainedModel) -> int:
    """Replace the model's large Linears by packed layers if these run here; return how many were replaced."""
    if model.device.type != "cpu" or not can_pack(model.dtype):
        return 0
    embedding = getattr(model.get_input_embeddings(), "weight", None)  # None if it is quantised
    is_large = embedding is not None and embedding.numel() / model.num_parameters() > _TIED_SHARE
    tied = embedding if is_large else None
    paths = [
        path
        for path, module in model.named_modules()
        if type(module) is nn.Linear
        and module.weight is not tied
        and module.weight.numel() >= SMALLEST.get(module.weight.dtype, torch.inf)
    ]
    for path in paths:  # one at a time, so that each dense weight is freed before the next is copied
        model.set_submodule(path, BlockedLinear(model.get_submodule(path)))
    return len(paths)


def can_pack(dtype: torch.dtype) -> bool:
    """Try a small packed layer; return whether this machine's kernels work with packed weights of this type."""
    if dtype not in SMALLEST or platform.machine() not in ("x86_64", "AMD64"):
        return False
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    linear = nn.Linear(64, 64, dtype=dtype)
    states = torch.linspace(-1, 1, 3 * 64, dtype=dtype).reshape(3, 64)
    try:
        return torch.allclose(BlockedLinear(linear)(states), linear(states), atol=0.05)
    except (RuntimeError, AttributeError):  # an unsupported CPU, or a torch whose kernels have other names
        return False
