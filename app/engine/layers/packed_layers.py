"""Linears and embeddings whose weights stay packed, with our own kernels for CPUs and GPUs."""

import logging
from collections.abc import Callable, Iterable
from functools import cache, partial

import torch
from torch import Tensor, nn

from app.engine.cpu_kernels import packed_kernels
from app.engine.layers.packed_weight import PLANES, Numbers, PackedWeight, pack_for_cpu
from app.engine.layers.quantised_layers import QuantisedEmbedding, QuantisedLinear
from app.engine.machine.device_faults import is_no_verdict, refused_because
from app.engine.machine.hardware import is_close

log = logging.getLogger(__name__)

TRIED, ROWS, ALLOWED = 160, 20, 0.05
"""The row length and the rows of a trial, and how far its products may be off."""

Pack = Callable[[tuple[int, int], Iterable[Numbers]], PackedWeight]
"""(shape, slices of the rows) -> the weight on its device."""


class PackedLinear(QuantisedLinear):
    """Multiplies by a packed weight."""

    bits = 8

    def __init__(self, packed: PackedWeight, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = packed.shape
        self.packed, self.bias, self.rounding = packed, bias, packed.rounding
        for name, part in packed.parts.items():
            self.register_buffer(name, part)  # so that its memory is counted

    def multiply(self, states: Tensor) -> Tensor:
        """Multiply states [rows, in] by the weight: [rows, out], without the bias."""
        return self.packed.product(states)

    @property
    def weight(self) -> Tensor:
        """The dequantised weight [out, in] in float32, for code that needs the weight itself."""
        return dense(self.packed)


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
        """Look rows up and dequantise them."""
        rows = self.packed.rows(ids).to(self.dtype)
        return rows if self.is_plain else rows * self.factor


def dense(packed: PackedWeight) -> Tensor:
    """Dequantise a packed weight: [out, in] in float32."""
    return packed.rows(torch.arange(packed.shape[0], device=packed.parts["numbers"].device))


def packer(device: torch.device) -> Pack:
    """Return what packs weights for this device. Raises ImportError on a GPU without triton."""
    if device.type == "cpu":
        return pack_for_cpu
    from app.engine.layers.packed_weight_triton import pack_for_gpu

    return partial(pack_for_gpu, device=device)


@cache
def packing_fault(device: torch.device, dtype: torch.dtype) -> str:
    """Try this device's kernels on small packed weights of all kinds; return what is wrong with them, or ""."""
    if device.type == "cpu" and packed_kernels() is None:
        return "there is no C compiler"
    try:
        wrong = [bits for bits in PLANES if not _is_right(bits, device, dtype)]
    except Exception as error:  # compilers and drivers raise errors of their own types
        if is_no_verdict(error):
            raise
        return refused_because(error)
    return f"products with {wrong[0]} bits are wrong" if wrong else ""


def _is_right(bits: int, device: torch.device, dtype: torch.dtype) -> bool:
    source = torch.Generator().manual_seed(0)
    states = torch.randn((ROWS, TRIED), generator=source).to(device, dtype)
    values = torch.randint(0, 2**bits, (40, TRIED), generator=source, dtype=torch.uint8)
    zero = 0 if bits == 8 else 2 ** (bits - 1)
    weight = packer(device)((40, TRIED), [Numbers(bits, values, torch.ones((40, 1)), zero)])
    found = torch.cat((weight.product(states[:1]), weight.product(states[1:])))
    return is_close(found, states.float() @ dense(weight).t(), ALLOWED)


def packed_weights(model: nn.Module) -> list[PackedWeight]:
    """Return the packed weights of a model, each once."""
    layers = (module for module in model.modules() if isinstance(module, (PackedLinear, PackedEmbedding)))
    return list({id(layer.packed): layer.packed for layer in layers}.values())


def packed_bytes(model: nn.Module) -> int:
    """Return how many bytes the packed weights of a model take."""
    return sum(part.nbytes for weight in packed_weights(model) for part in weight.parts.values())
