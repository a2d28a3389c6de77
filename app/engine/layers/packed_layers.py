"""Linears, embeddings and (on CPUs) experts whose weights stay packed, with our own kernels for CPUs and GPUs."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from app.engine.cpu_kernels import packed_kernels
from app.engine.layers.fused_modules import Activation
from app.engine.layers.packed_weight import (
    PLANES,
    SLICE,
    CpuPackedWeight,
    CpuPacker,
    Numbers,
    PackedWeight,
    gated_experts,
)
from app.engine.layers.quantised_layers import QuantisedEmbedding, QuantisedLinear, QuantisedWeight
from app.engine.machine.device_faults import fault_found
from app.engine.machine.hardware import is_close

log = logging.getLogger(__name__)

TRIED, ROWS, ALLOWED = 1024, (1, 12, 20), 0.05
"""The row length of a trial, the row counts of its products, and their tolerance."""

ACTIVATIONS: Mapping[Activation, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}

Pack = Callable[[tuple[int, int], Iterable[Numbers]], PackedWeight]
"""(shape, slices of the rows) -> the weight on its device."""


class PackedLinear(QuantisedLinear):
    bits = 8

    def __init__(self, packed: PackedWeight, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = packed.shape
        self.bias, self.rounding = bias, packed.rounding
        self.keep(packed)

    def keep(self, packed: PackedWeight) -> None:
        """Replace the weight. Its parts become buffers, so that their memory is counted."""
        self.packed = packed
        for name, part in packed.parts.items():
            self.register_buffer(name, part)

    def multiply(self, states: Tensor) -> Tensor:
        return self.packed.product(states)

    @property
    def weight(self) -> Tensor:
        return dense(self.packed)


class PackedInt8Linear(PackedLinear):
    """A Linear quantised to 8 bits whose weight is packed for a GPU with Triton."""

    def __init__(self, numbers: QuantisedWeight, bias: Tensor | None, dtype: torch.dtype) -> None:
        from app.engine.layers.packed_weight_triton import pack_for_gpu

        scale, shape = numbers.scale.to(dtype), (numbers.values.shape[0], numbers.values.shape[1])
        rows = Numbers(8, numbers.values, scale)
        if self.bits == 4:
            offset = (-numbers.zero * numbers.scale).to(dtype)
            rows = Numbers(4, (numbers.values + 8).view(torch.uint8), scale, zero=8, offset=offset)
        super().__init__(pack_for_gpu(shape, [rows], numbers.values.device), bias)
        self._dtype = dtype

    @property
    def weight(self) -> Tensor:
        return dense(self.packed).to(self._dtype)

    def tied(self, table: QuantisedEmbedding) -> QuantisedEmbedding:
        return PackedEmbedding(self.packed, self._dtype, table.factor)


class PackedInt4Linear(PackedInt8Linear):
    """A Linear quantised to 4 bits whose weight is packed for a GPU with Triton."""

    bits = 4


def join_packed(parts: Sequence[PackedLinear]) -> PackedLinear | None:
    """Join Linears, and make their weights views of the joined weight; return None if that is impossible."""
    first, *others = (part.packed for part in parts)
    if len({part.bias is None for part in parts}) > 1 or not (joined := first.joined(others)):
        return None
    for part, view in zip(parts, joined[1:], strict=True):
        part.keep(view)
    biases = [part.bias for part in parts if part.bias is not None]
    return PackedLinear(joined[0], torch.cat(biases) if biases else None)


class PackedEmbedding(QuantisedEmbedding):
    """Looks rows up in a packed weight: ids [...] -> rows [..., size] of the type `dtype`."""

    def __init__(
        self, packed: PackedWeight, dtype: torch.dtype = torch.float32, factor: Tensor | float = 1.0
    ) -> None:
        nn.Module.__init__(self)
        self.packed, self.dtype = packed, dtype
        for name, part in packed.parts.items():
            self.register_buffer(name, part)
        self.factor = torch.as_tensor(factor).to(packed.parts["numbers"].device, dtype)

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.packed.rows(ids).to(self.dtype)
        return rows if self.is_plain else rows * self.factor


class PackedExperts(nn.Module):
    """Computes the chosen experts of each row, and adds up their weighted results.

    A row's result does not depend on other rows: the kernels compute each row independently, and the results are
    added in the order of the experts' numbers. `matrices` replace the weights of the same names in `experts`."""

    def __init__(self, experts: Any, matrices: Mapping[str, PackedWeight]) -> None:
        super().__init__()
        self._up, self._down = stacked_shapes(experts)
        self.packed = {name: matrices[name] for name in (self._up, self._down)}
        for name, packed in self.packed.items():
            assert isinstance(packed, CpuPackedWeight), "experts stay packed on a CPU only"
            for part, tensor in packed.parts.items():
                self.register_buffer(f"{name}_{part}", tensor)
            delattr(experts, name)
            self.register_buffer(f"{name}_bias", vars(experts)["_parameters"].pop(f"{name}_bias", None))
        self.activation = experts
        # transformers before 5.20 has no experts with such a norm.
        self._norm = experts.post_expert_norm if getattr(experts, "has_post_expert_norm", False) else None
        has_more = self._norm is not None or any("_bias" in name for name, _ in self.named_buffers())
        self._gate = None if has_more else _gate_of(experts)

    def forward(self, states: Tensor, chosen: Tensor, shares: Tensor) -> Tensor:
        """Add up the results [rows, in] of the experts `chosen` [rows, k], weighted by `shares` [rows, k]."""
        if self._gate is not None:
            stacks: Any = tuple(self.packed.values())
            count, is_gelu = self.activation.num_experts, self._gate == "gelu_tanh"
            return gated_experts(stacks, count, states, chosen, shares, is_gelu)
        experts, order = chosen.flatten().long().sort(stable=True)
        rows = order // chosen.shape[1]
        activate = self.activation._apply_gate if self.activation.has_gate else self.activation.act_fn
        product = self._multiply(self._up, states, experts, rows)
        # Row by row, because torch's rounding of a value depends on the number of values.
        active = torch.cat([activate(row) for row in torch.split(product, 1)])
        result = self._multiply(self._down, active, experts, torch.arange(len(rows)))
        if self._norm is not None:
            result = self._norm(result)
        result *= shares.flatten()[order, None]
        return torch.zeros_like(states).index_add_(0, rows, result)

    def _multiply(self, name: str, states: Tensor, experts: Tensor, rows: Tensor) -> Tensor:
        packed: Any = self.packed[name]
        product: Tensor = packed.products(states, self.activation.num_experts, experts, rows)
        bias = getattr(self, f"{name}_bias")
        return product if bias is None else product + bias[experts]


def _gate_of(experts: Any) -> Activation | None:
    """Return the activation of our kernels that the experts apply to the gate; None if they apply another."""
    halves = torch.randn((2, 2, 32), generator=torch.Generator().manual_seed(0))
    for name, activation in ACTIVATIONS.items() if experts.has_gate else ():
        if torch.equal(experts._apply_gate(torch.cat((*halves,), -1)), activation(halves[0]) * halves[1]):
            return name
    return None


class RowByRow(nn.Module):
    """Runs a router row by row, so that the choice of a row's experts does not depend on the number of rows."""

    def __init__(self, router: nn.Module) -> None:
        super().__init__()
        self.router = router

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("router"), name)

    def forward(self, states: Tensor) -> Any:
        found = [self.router(row) for row in torch.split(states.reshape(-1, states.shape[-1]), 1)]
        if isinstance(found[0], tuple):
            return (
                found[0] if len(found) == 1 else tuple(torch.cat(parts) for parts in zip(*found, strict=True))
            )
        joined = torch.cat(found)
        return joined.view(*states.shape[:-1], -1) if isinstance(self.router, nn.Linear) else joined


def stacked_shapes(module: Any) -> dict[str, tuple[int, int, int]]:
    """Return the shapes [experts, out, in] of a module's stacked matrices by their names: first up, then down.

    Returns {} unless the module is transformers' layer of experts and has matrices of whole tiles."""
    if not hasattr(module, "is_transposed"):
        return {}
    found = {}
    for name in ("gate_up_proj" if module.has_gate else "up_proj", "down_proj"):
        experts, first, second = getattr(module, name).shape
        found[name] = (experts, second, first) if module.is_transposed else (experts, first, second)
    return found if all(outs % SLICE == 0 for _, outs, _ in found.values()) else {}


def dense(packed: PackedWeight) -> Tensor:
    """Dequantise a packed weight: [out, in] in float32."""
    return packed.rows(torch.arange(packed.shape[0], device=packed.parts["numbers"].device))


def packer(device: torch.device) -> Pack:
    """Return the function that packs weights for this device. Raises ImportError on a GPU without triton."""
    if device.type == "cpu":
        return CpuPacker()
    from app.engine.layers.packed_weight_triton import pack_for_gpu

    return partial(pack_for_gpu, device=device)


@cache
def packing_fault(device: torch.device, dtype: torch.dtype) -> str:
    """Try this device's kernels with each bit width, and with a table; return why they cannot be used, or ""."""
    if device.type == "cpu" and packed_kernels() is None:
        return "there is no C compiler"
    return fault_found(partial(_wrong_products, device, dtype))


def _wrong_products(device: torch.device, dtype: torch.dtype) -> str:
    source = torch.Generator().manual_seed(0)
    states = torch.randn((sum(ROWS), TRIED), generator=source).to(device, dtype)
    table_of_16 = tuple(range(-120, 121, 16))
    for bits, table in (*((bits, ()) for bits in PLANES), (3, table_of_16), (4, table_of_16)):
        values = torch.randint(0, 2**bits, (40, TRIED), generator=source, dtype=torch.uint8)
        zero = 0 if bits == 8 or table else 2 ** (bits - 1)
        numbers = Numbers(bits, values, torch.ones((40, 1)), zero, table=table)
        weight = packer(device)((40, TRIED), [numbers])
        found = torch.cat([weight.product(part) for part in torch.split(states, list(ROWS))])
        if not is_close(found, states.float() @ dense(weight).t(), ALLOWED):
            return f"products with {bits} bits are wrong"
    return ""


def packed_weights(model: nn.Module) -> list[PackedWeight]:
    """Return the packed weights of a model, each once."""
    layers = [module for module in model.modules() if isinstance(module, (PackedLinear, PackedEmbedding))]
    experts = (module.packed.values() for module in model.modules() if isinstance(module, PackedExperts))
    return list({id(one): one for one in chain((layer.packed for layer in layers), *experts)}.values())


def packed_bytes(model: nn.Module) -> int:
    return sum(part.nbytes for weight in packed_weights(model) for part in weight.parts.values())
