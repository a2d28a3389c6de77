"""Linears and embeddings whose weights stay packed, with our own kernels for CPUs and GPUs."""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial

import torch
from torch import Tensor, nn

from app.engine.cpu_kernels import packed_kernels
from app.engine.layers.packed_weight import PLANES, Numbers, PackedWeight, pack_for_cpu
from app.engine.layers.quantised_layers import QuantisedEmbedding, QuantisedLinear, QuantisedWeight
from app.engine.machine.device_faults import fault_found
from app.engine.machine.hardware import is_close

log = logging.getLogger(__name__)

TRIED, ROWS, ALLOWED = 1024, 20, 0.05
"""The row length and the number of rows of a trial, and the tolerance of its products."""

Pack = Callable[[tuple[int, int], Iterable[Numbers]], PackedWeight]
"""(shape, slices of the rows) -> the weight on its device."""


class PackedLinear(QuantisedLinear):
    """Multiplies by a packed weight."""

    bits = 8

    def __init__(self, packed: PackedWeight, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = packed.shape
        self.bias, self.rounding = bias, packed.rounding
        self.keep(packed)

    def keep(self, packed: PackedWeight) -> None:
        """Multiply by this weight from now on. Its parts are buffers, so that their memory is counted."""
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
        """Return an embedding that reads the head's packed weight."""
        return PackedEmbedding(self.packed, self._dtype, table.factor)


class PackedInt4Linear(PackedInt8Linear):
    """A Linear quantised to 4 bits whose weight is packed for a GPU with Triton."""

    bits = 4

    @staticmethod
    def _rows(numbers: QuantisedWeight, dtype: torch.dtype) -> Numbers:
        scale, offset = numbers.scale.to(dtype), (-numbers.zero * numbers.scale).to(dtype)
        return Numbers(4, (numbers.values + 8).view(torch.uint8), scale, zero=8, offset=offset)


def join_packed(parts: Sequence[PackedLinear]) -> PackedLinear | None:
    """Join Linears into one, and make their weights views of its weight; return None if they cannot be joined."""
    first, *others = (part.packed for part in parts)
    if len({part.bias is None for part in parts}) > 1 or not (joined := first.joined(others)):
        return None
    for part, view in zip(parts, joined[1:], strict=True):
        part.keep(view)
    biases = [part.bias for part in parts if part.bias is not None]
    return PackedLinear(joined[0], torch.cat(biases) if biases else None)


class PackedEmbedding(QuantisedEmbedding):
    """Looks rows up in a packed weight: ids [...] -> rows [..., size] of this type."""

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
    """Try this device's kernels on small packed weights of all kinds; return their fault, or ""."""
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
    layers = (module for module in model.modules() if isinstance(module, (PackedLinear, PackedEmbedding)))
    return list({id(layer.packed): layer.packed for layer in layers}.values())


def packed_bytes(model: nn.Module) -> int:
    """Return how many bytes the packed weights of a model take."""
    return sum(part.nbytes for weight in packed_weights(model) for part in weight.parts.values())
