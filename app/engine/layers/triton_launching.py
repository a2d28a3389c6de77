"""Launches the kernels of fused layers. Needs triton: imported only where they are used."""

from dataclasses import dataclass

import torch
from torch import Tensor

from app.engine.block.block import CacheSlots
from app.engine.layers.kernel_signature import Activation, HeadNorms, NormShape, NormWeight
from app.engine.layers.triton_kernels import gate_kernel, norm_kernel, rotary_kernel

PIECE = 1024
"""Values of a gated product in one program: a row of 11,008 keeps 11 multiprocessors reading."""

PAIRS = 256
"""Pairs of values that a program turns: as many heads as make them."""

_ALIGNED = 16
"""Bytes that a kernel's reads are as wide as. Which values a thread adds up follows from that width."""

_NO_NORM = NormShape(0.0, NormWeight(False))


@dataclass(frozen=True, slots=True)
class TritonKernels:
    """The kernels on one device. `by_hand`: triton's interpreter runs them."""

    by_hand: bool = False

    def rms_norm(self, states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
        """RMSNorm of rows [..., size]."""
        rows = _rows(states)
        out = torch.empty_like(rows)
        self._norm(rows, None, weight, out, out, shape)
        return out.view(states.shape)

    def add_rms_norm(
        self, states: Tensor, others: Tensor, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        """The sum of both [..., size], and its RMSNorm."""
        rows = _rows(states)
        total, out = torch.empty_like(rows), torch.empty_like(rows)
        self._norm(rows, _rows(others), weight, total, out, shape)
        return total.view(states.shape), out.view(states.shape)

    def gated_activation(self, gate: Tensor, up: Tensor, activation: Activation) -> Tensor:
        """The bent gate times up, both [..., size]."""
        size = gate.shape[-1]
        gates, ups = gate.reshape(-1, size), up.reshape(-1, size)
        out = gates.new_empty(gates.shape)
        gate_kernel[(len(out), -(-size // PIECE))](
            gates,
            ups,
            out,
            gates.stride(0),
            ups.stride(0),
            ACTIVATION=activation,
            BY_HAND=self.by_hand,
            SIZE=size,
            BLOCK=min(PIECE, _padded(size)),
            num_warps=4,
            enable_fp_fusion=False,
        )
        return out.view(gate.shape)

    def write_rotated(
        self,
        states: tuple[Tensor, Tensor, Tensor],
        tables: tuple[Tensor, Tensor],
        slots: CacheSlots,
        norms: HeadNorms | None = None,
    ) -> Tensor:
        """Rotate queries [1, H, T, D] and keys, and write keys and values [1, KV, T, D] to the cache."""
        query, keys, values = (_unit_stride(each) for each in states)
        cos, sin = (table.contiguous() for table in tables)
        new_query = _empty_by_rows(query)
        (_, count, rows, size), shared, width = query.shape, keys.shape[1], cos.shape[-1]
        block = _padded(width // 2)
        heads = max(1, PAIRS // block)
        shape = norms.shape if norms else _NO_NORM
        rotary_kernel[(rows, -(-count // heads) + 2 * -(-shared // heads))](
            *(query, keys, values, cos, sin),
            *((norms.query, norms.keys) if norms else (query, query)),
            query if slots.places is None else slots.places,
            *(new_query, slots.keys, slots.values),
            *(stride for each in (query, keys, values) for stride in each.stride()[1:3]),
            *(slots.keys.stride(1), slots.values.stride(1)),
            *(slots.begin, 1 / size, shape.eps),
            HAS_SLOTS=slots.places is not None,
            COUNT=count,
            SHARED=shared,
            HAS_NORM=norms is not None,
            ROUNDS_FIRST=shape.norm_weight.rounds_first,
            ADDS_ONE=shape.norm_weight.adds_one,
            BY_HAND=self.by_hand,
            SIZE=size,
            WIDTH=width,
            HEADS=heads,
            BLOCK=block,
            REST=_padded(max(1, size - width)),
            WHOLE=_padded(size),
            num_warps=1,
            enable_fp_fusion=False,
        )
        return new_query

    def _norm(
        self,
        rows: Tensor,
        others: Tensor | None,
        weight: Tensor,
        total: Tensor,
        out: Tensor,
        shape: NormShape,
    ) -> None:
        size = rows.shape[1]
        block = _padded(size)
        norm_kernel[(len(rows),)](
            rows,
            rows if others is None else others,
            weight,
            total,
            out,
            1 / size,  # torch's mean multiplies on a card
            shape.eps,
            HAS_OTHERS=others is not None,
            ROUNDS_FIRST=shape.norm_weight.rounds_first,
            ADDS_ONE=shape.norm_weight.adds_one,
            BY_HAND=self.by_hand,
            SIZE=size,
            BLOCK=block,
            num_warps=max(1, min(16, block // 512)),
            enable_fp_fusion=False,
        )


def on_device(device: torch.device) -> TritonKernels:
    """The kernels as this device can run them."""
    return TritonKernels(by_hand=device.type != "cuda")


def _rows(states: Tensor) -> Tensor:
    """Contiguous rows [n, size] at an aligned address: the order of adding depends on the alignment."""
    rows = states.reshape(-1, states.shape[-1]).contiguous()
    return rows.clone() if rows.data_ptr() % _ALIGNED else rows


def _unit_stride(states: Tensor) -> Tensor:
    return states if states.stride(3) == 1 else states.contiguous()


def _empty_by_rows(states: Tensor) -> Tensor:
    """Like states [1, heads, T, size], laid out [1, T, heads, size] as products leave it."""
    batch, heads, rows, size = states.shape
    return states.new_empty((batch, rows, heads, size)).transpose(1, 2)


def _padded(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()
