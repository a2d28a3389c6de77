"""Linears, embeddings and experts whose weights stay packed, with our own kernels for CPUs and GPUs."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from app.engine.cpu_kernels import packed_kernels
from app.engine.layers.packed_weight import (
    PLANES,
    SLICE,
    CpuPackedWeight,
    Numbers,
    PackedWeight,
    pack_for_cpu,
)
from app.engine.layers.quantised_layers import QuantisedEmbedding, QuantisedLinear, QuantisedWeight
from app.engine.machine.device_faults import fault_found
from app.engine.machine.hardware import is_close

log = logging.getLogger(__name__)

TRIED, ROWS, ALLOWED = 1024, 20, 0.05
"""The row length and the number of rows of a trial, and the tolerance of its products."""

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
        """The dequantised weight [out, in] in float32, for code that needs the weight itself."""
        return dense(self.packed)


class PackedInt8Linear(PackedLinear):
    """A Linear quantised to 8 bits whose weight is packed for a GPU with Triton."""

    def __init__(self, numbers: QuantisedWeight, bias: Tensor | None, dtype: torch.dtype) -> None:
        from app.engine.layers.packed_weight_triton import pack_for_gpu

        rows, size = numbers.values.shape
        packed = pack_for_gpu((rows, size), [self._rows(numbers, dtype)], numbers.values.device)
        super().__init__(packed, bias)
        self._dtype = dtype

    @staticmethod
    def _rows(numbers: QuantisedWeight, dtype: torch.dtype) -> Numbers:
        return Numbers(8, numbers.values, numbers.scale.to(dtype))

    @property
    def weight(self) -> Tensor:
        """The dequantised weight [out, in], for code that needs the weight itself."""
        return dense(self.packed).to(self._dtype)

    def tied(self, table: QuantisedEmbedding) -> QuantisedEmbedding:
        """Return an embedding that looks rows up in this packed weight."""
        return PackedEmbedding(self.packed, self._dtype, table.factor)


class PackedInt4Linear(PackedInt8Linear):
    """A Linear quantised to 4 bits whose weight is packed for a GPU with Triton."""

    bits = 4

    @staticmethod
    def _rows(numbers: QuantisedWeight, dtype: torch.dtype) -> Numbers:
        scale, offset = numbers.scale.to(dtype), (-numbers.zero * numbers.scale).to(dtype)
        return Numbers(4, (numbers.values + 8).view(torch.uint8), scale, zero=8, offset=offset)


def join_packed(parts: Sequence[PackedLinear]) -> PackedLinear | None:
    """Join Linears into one whose weight they share as views; return None if they cannot be joined."""
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
    """Multiplies each row by the matrices of the row's chosen experts, and adds the results up.

    A row's result does not depend on other rows: the kernels compute each row independently, and the results are
    added in the order of the experts' numbers. `matrices` are the stacks by their names in transformers' module."""

    def __init__(self, experts: Any, matrices: Mapping[str, PackedWeight]) -> None:
        super().__init__()
        self._up, self._down = stacked_shapes(experts)
        self.packed = [matrices[self._up], matrices[self._down]]
        self._by_expert: dict[str, list[CpuPackedWeight]] = {}
        for name, packed in zip((self._up, self._down), self.packed, strict=True):
            assert isinstance(packed, CpuPackedWeight), "experts stay packed on a CPU only"
            self._by_expert[name] = packed.split(experts.num_experts)
            for part, tensor in packed.parts.items():
                self.register_buffer(f"{name}_{part}", tensor)
            delattr(experts, name)
            self.register_buffer(f"{name}_bias", vars(experts)["_parameters"].pop(f"{name}_bias", None))
        self.activation = experts

    def forward(self, states: Tensor, chosen: Tensor, shares: Tensor) -> Tensor:
        """Add up the results [rows, in] of the experts `chosen` [rows, k], weighted by `shares` [rows, k]."""
        total = torch.zeros_like(states)
        for expert, pairs in sorted(_by_expert(chosen).items()):
            rows, columns = torch.tensor(pairs).T
            result = self._multiply(
                self._down, expert, self._activate(self._multiply(self._up, expert, states[rows]))
            )
            if self.activation.has_post_expert_norm:
                result = self.activation.post_expert_norm(result)
            total.index_add_(0, rows, result * shares[rows, columns, None])
        return total

    def _multiply(self, name: str, expert: int, states: Tensor) -> Tensor:
        product, bias = self._by_expert[name][expert].product(states), getattr(self, f"{name}_bias")
        return product if bias is None else product + bias[expert]

    def _activate(self, states: Tensor) -> Tensor:
        module = self.activation
        active: Tensor = module._apply_gate(states) if module.has_gate else module.act_fn(states)
        return active


class RowByRow(nn.Module):
    """Runs a router row by row, so that the choice of a row's experts does not depend on the number of rows."""

    def __init__(self, router: nn.Module) -> None:
        super().__init__()
        self.router = router

    def __getattr__(self, name: str) -> Any:
        """Return the router's attribute if this module has none of this name."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("router"), name)

    def forward(self, states: Tensor) -> Any:
        """Compute the router's result for states [..., in]."""
        found = [self.router(row) for row in torch.split(states.reshape(-1, states.shape[-1]), 1)]
        if isinstance(found[0], tuple):
            return tuple(torch.cat(parts) for parts in zip(*found, strict=True))
        joined = torch.cat(found)
        return joined.view(*states.shape[:-1], -1) if isinstance(self.router, nn.Linear) else joined


def _by_expert(chosen: Tensor) -> dict[int, list[tuple[int, int]]]:
    """Return the (row, column) of each choice, by the number of the chosen expert."""
    found = defaultdict[int, list[tuple[int, int]]](list)
    for row, experts in enumerate(chosen.tolist()):
        for column, expert in enumerate(experts):
            found[expert].append((row, column))
    return found


def stacked_shapes(module: Any) -> dict[str, tuple[int, int, int]]:
    """Return the shapes [experts, out, in] of a module's stacked matrices by their names: first up, then down.

    Returns {} unless the module is a layer of experts of transformers whose matrices consist of whole tiles."""
    if not hasattr(module, "has_post_expert_norm"):
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
        return pack_for_cpu
    from app.engine.layers.packed_weight_triton import pack_for_gpu

    return partial(pack_for_gpu, device=device)


@cache
def packing_fault(device: torch.device, dtype: torch.dtype) -> str:
    """Try this device's kernels on small packed weights of all kinds; return why they cannot be used, or ""."""
    if device.type == "cpu" and packed_kernels() is None:
        return "there is no C compiler"
    return fault_found(partial(_wrong_products, device, dtype))


def _wrong_products(device: torch.device, dtype: torch.dtype) -> str:
    kinds = [*((bits, ()) for bits in PLANES), (4, tuple(range(-120, 121, 16)))]
    wrong = [bits for bits, table in kinds if not _is_right(bits, table, device, dtype)]
    return f"products with {wrong[0]} bits are wrong" if wrong else ""


def _is_right(bits: int, table: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> bool:
    source = torch.Generator().manual_seed(0)
    states = torch.randn((ROWS, TRIED), generator=source).to(device, dtype)
    values = torch.randint(0, 2**bits, (40, TRIED), generator=source, dtype=torch.uint8)
    zero = 0 if bits == 8 or table else 2 ** (bits - 1)
    weight = packer(device)((40, TRIED), [Numbers(bits, values, torch.ones((40, 1)), zero, table=table)])
    found = torch.cat((weight.product(states[:1]), weight.product(states[1:])))
    return is_close(found, states.float() @ dense(weight).t(), ALLOWED)


def packed_weights(model: nn.Module) -> list[PackedWeight]:
    """Return the packed weights of a model, each once."""
    layers = [module for module in model.modules() if isinstance(module, (PackedLinear, PackedEmbedding))]
    stacks = [one for module in model.modules() if isinstance(module, PackedExperts) for one in module.packed]
    return list({id(packed): packed for packed in (*(layer.packed for layer in layers), *stacks)}.values())


def packed_bytes(model: nn.Module) -> int:
    """Return the bytes of all packed weights of a model."""
    return sum(part.nbytes for weight in packed_weights(model) for part in weight.parts.values())
