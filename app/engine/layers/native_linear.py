"""Linears and embeddings whose weights stay packed, with our own kernels for CPUs. Activations become bytes."""

import logging
from ctypes import byref
from functools import cache

import torch
from torch import Tensor, nn

from app.engine.cpu_kernels import packed_kernels
from app.engine.layers.packed_weight import GROUP, PLANES, Numbers, PackedWeight, pack
from app.engine.layers.quantised_layers import QuantisedEmbedding, QuantisedLinear
from app.engine.machine.hardware import is_close

log = logging.getLogger(__name__)

TRIED, ALLOWED = 160, 0.05
"""The row length of a trial, and how far its products may be off."""


class NativeLinear(QuantisedLinear):
    """Multiplies with our C kernel. A row's activations become numbers of 8 bits, each 32 of them with a scale."""

    bits = 8
    rounding = 0.6
    """How far results may differ because activations are rounded: `tolerance_of` in hardware.py."""
    packed: PackedWeight

    def __init__(self, packed: PackedWeight, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self._library = packed_kernels()
        self.out_features, self.in_features = packed.shape
        self.packed, self.bias = packed, bias
        for name, part in packed.parts.items():
            self.register_buffer(name, part)  # so that its memory is counted
        self._described = byref(packed.described())
        self._room = -(-self.in_features // GROUP) * (GROUP // 4 + 3)

    @property
    def weight(self) -> Tensor:
        """The dequantised weight [out, in], for code that needs the weight itself."""
        return self.packed.dense()

    def multiply(self, states: Tensor) -> Tensor:
        """Multiply states [rows, in] by the weight: [rows, out], without the bias."""
        states, rows = states.contiguous(), len(states)
        if states.dtype != torch.float32:
            raise ValueError(f"this kernel takes float32; the states are {states.dtype}")
        out, room = torch.empty((rows, self.out_features)), torch.empty(rows * self._room)
        assert self._library is not None
        self._library.packed_linear(
            self._described, states.data_ptr(), rows, room.data_ptr(), out.data_ptr(), torch.get_num_threads()
        )
        return out


class NativeEmbedding(QuantisedEmbedding):
    """Looks rows up in a packed weight: ids [...] -> rows [..., size] in float32."""

    def __init__(self, packed: PackedWeight, factor: Tensor | float = 1.0) -> None:
        nn.Module.__init__(self)
        self.packed = packed
        for name, part in packed.parts.items():
            self.register_buffer(name, part)
        self.factor = torch.as_tensor(factor, dtype=torch.float32)

    def forward(self, ids: Tensor) -> Tensor:
        """Look rows up and dequantise them."""
        rows = self.packed.rows(ids)
        return rows if self.is_plain else rows * self.factor


@cache
def can_multiply() -> bool:
    """Return whether the kernels are here and right for numbers of all sizes, by trying them on small weights."""
    if packed_kernels() is None:
        return False
    source = torch.Generator().manual_seed(0)
    states = torch.randn((8, TRIED), generator=source)
    for bits in PLANES:
        values = torch.randint(0, 2**bits, (40, TRIED), generator=source, dtype=torch.uint8)
        zero = 0 if bits == 8 else 2 ** (bits - 1)
        weight = pack((40, TRIED), [Numbers(bits, values, torch.ones((40, 1)), zero)])
        layer, expected = NativeLinear(weight, None), states @ weight.dense().t()
        if not is_close(torch.cat((layer(states[:1]), layer(states[1:]))), expected, ALLOWED):
            log.info("packed weights of %s bits are not used, because their products are wrong", bits)
            return False
    return True


def packed_weights(model: nn.Module) -> list[PackedWeight]:
    """Return the packed weights of a model, each once."""
    layers = (module for module in model.modules() if isinstance(module, (NativeLinear, NativeEmbedding)))
    return list({id(layer.packed): layer.packed for layer in layers}.values())
