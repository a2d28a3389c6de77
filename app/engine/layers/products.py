"""Multiplies the same rows by several weights, one after the other or as one product with joined weights.

The old weights become views of the joined weight, so no weight is in memory twice. The old modules still work."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from app.engine.layers.model_trial import ROWS
from app.engine.layers.packed_layers import PackedLinear, join_packed
from app.engine.machine.hardware import is_close
from app.engine.machine.process_memory import is_out_of_memory


class SeparateProducts(nn.Module):
    """Computes the products of its parts one after the other."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, states: Tensor) -> tuple[Tensor, ...]:
        return tuple(part(states) for part in self.parts)


class JoinedProduct(nn.Module):
    """Computes one product, and splits it into parts of these sizes."""

    def __init__(self, product: nn.Module, sizes: Sequence[int]) -> None:
        super().__init__()
        self.product = product
        self.sizes = list(sizes)

    def forward(self, states: Tensor) -> tuple[Tensor, ...]:
        """Compute each part's product [..., out] of states [..., in]; rows of a part are not contiguous."""
        product: Tensor = self.product(states)
        return torch.split(product, self.sizes, dim=-1)


@torch.no_grad()
def join_products(model: nn.Module, fused: Iterable[nn.Module]) -> int:
    """Join the products of modules if results stay the same up to rounding; return how many modules were changed.

    Stops when memory runs out. Parameters that modules share are not joined, because they would be stored twice."""
    owned = (parameter for module in model.modules() for parameter in module.parameters(recurse=False))
    shared = {found for found, times in Counter(map(id, owned)).items() if times > 1}
    count = 0
    for module in fused:
        products = getattr(module, "products", None)
        if not isinstance(products, SeparateProducts) or not _can_join(products, shared):
            continue
        try:
            joined = _tried(products, next(model.parameters()))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return count
        if joined:
            module.products = joined
            count += 1
    return count


def _can_join(products: SeparateProducts, shared: set[int]) -> bool:
    """Return whether all parts are packed, or are Linears of one kind that share no weight with other modules."""
    parts: list[Any] = list(products.parts)
    if all(isinstance(part, PackedLinear) for part in parts):
        return True
    if any(type(part) is not nn.Linear or id(part.weight) in shared for part in parts):
        return False
    kinds = {
        (part.in_features, part.weight.dtype, part.weight.device, part.bias is None or part.bias.dtype)
        for part in parts
    }
    return len(kinds) == 1


def _tried(products: SeparateProducts, like: Tensor) -> JoinedProduct | None:
    """Join the products; return None if they cannot be joined, or if results differ by more than rounding.

    Even if it returns None, the parts' weights may have become views of the joined weight. The trial's states have
    the type and device of `like`."""
    joined = joined_product(list(products.parts))
    if joined is None:
        return None
    first: Any = products.parts[0]
    source = torch.Generator().manual_seed(0)
    trials = [torch.randn((1, rows, first.in_features), generator=source).to(like) for rows in (1, *ROWS)]
    for rows in trials:
        if not all(is_close(*pair) for pair in zip(joined(rows), products(rows), strict=True)):
            return None
    return joined


def joined_product(parts: Sequence[Any]) -> JoinedProduct | None:
    """Join Linears, and make their weights views of the joined weight; return None if that is impossible."""
    sizes = [part.out_features for part in parts]
    if isinstance(parts[0], PackedLinear):
        packed = join_packed(parts)
        return JoinedProduct(packed, sizes) if packed else None
    product = nn.Linear(parts[0].in_features, sum(sizes), bias=parts[0].bias is not None, device="meta")
    for name in dict(product.named_parameters()):
        whole = torch.cat([getattr(part, name) for part in parts])
        setattr(product, name, nn.Parameter(whole, requires_grad=False))
        for part, view in zip(parts, torch.split(whole, sizes), strict=True):
            setattr(part, name, nn.Parameter(view, requires_grad=False))
    if parts[0].weight.device.type == "cuda":
        torch.cuda.empty_cache()  # the memory of a freed part is too small for a later joined weight
    return JoinedProduct(product, sizes)
