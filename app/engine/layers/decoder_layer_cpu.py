"""A decoder layer of 8-bit products in one call: between two of its parts nothing but numbers is.

Each part has the bits that it has when it is called by itself.
"""

from collections.abc import Sequence
from ctypes import CDLL, Structure, byref, c_float, c_int32, c_int64, c_void_p
from typing import Any

import torch
from torch import Tensor, nn

from app.engine.attention import BlockView
from app.engine.attention.native import MAX_ROWS, NativeAttention
from app.engine.layers.fused_modules import FusedLayer, FusedNorm
from app.engine.layers.int8_linear_cpu import NativeInt8Linear
from app.engine.layers.products import SeparateProducts
from app.engine.runner.kv_cache import CACHE_NAME, BlockCache


class _Linear(Structure):
    _fields_ = (
        ("weight", c_void_p), ("scale", c_void_p), ("bias", c_void_p), ("size", c_int64), ("outs", c_int64),
        ("limit", c_int32),
    )  # fmt: skip


class _Norm(Structure):
    _fields_ = (("weight", c_void_p), ("eps", c_float), ("adds_one", c_int32))


class _Layer(Structure):
    """As in layer.h."""

    _fields_ = (
        *((name, _Linear) for name in ("query", "keys", "values", "output", "gate", "up", "down")),
        *((name, _Norm) for name in ("input", "post", "query_norm", "key_norm")),
        *((name, c_int64) for name in ("heads", "shared", "size", "value_size")),
        ("scale", c_float), ("is_gelu", c_int32),
    )  # fmt: skip


class Workspace:
    """Memory for what a step keeps in between: all layers use it, one after the other."""

    def __init__(self) -> None:
        self._floats = torch.empty(0)

    def of(self, count: int) -> Tensor:
        """Room for so many floats."""
        if len(self._floats) < count:
            self._floats = torch.empty(count)
        return self._floats


class NativeLayer(nn.Module):
    """A fused layer in one call. What the call is not made for, the layer itself does."""

    def __init__(self, layer: FusedLayer, library: CDLL, workspace: Workspace) -> None:
        """Raises TypeError or ValueError for a layer that has other parts."""
        super().__init__()
        self.layer = layer
        self._library = library
        self._workspace = workspace
        described = _described(layer)
        # What no step changes is found once: between two layers Python takes a tenth of a step of one row.
        self._described, self._index = byref(described), layer.self_attn.layer_idx
        sizes = (described.size, described.value_size)
        self._like = [torch.empty((1, described.shared, 1, size)) for size in sizes]  # keys, values

    def forward(self, hidden_states: Tensor, **named: Any) -> Tensor:
        """[1, T, size] to the same."""
        if hidden_states.shape[1] > MAX_ROWS or not isinstance(named["block"].attend, NativeAttention):
            answer: Tensor = self.layer(hidden_states, **named)
            return answer
        return self._in_one_call(
            hidden_states, named["position_embeddings"], named[CACHE_NAME], named["block"]
        )

    def _in_one_call(
        self, states: Tensor, tables: tuple[Tensor, Tensor], cache: BlockCache, view: BlockView
    ) -> Tensor:
        view.windows.append(0)
        layer, rows = self._described, states.shape[1]
        slots = cache.slots_for(self._index, *self._like_rows(rows))
        states, cos, sin = states.contiguous(), tables[0].contiguous(), tables[1].contiguous()
        visible, out = view.visible(), torch.empty_like(states)
        space = self._workspace.of(self._library.decoder_layer_room(layer, rows, slots.begin))
        self._library.decoder_layer(
            layer, states.data_ptr(), rows, cos.data_ptr(), sin.data_ptr(), cos.shape[-1],
            slots.keys.data_ptr(), slots.keys.stride(1), slots.values.data_ptr(), slots.values.stride(1),
            slots.begin, visible.ctypes.data, space.data_ptr(), out.data_ptr(), torch.get_num_threads(),
        )  # fmt: skip
        return out

    def _like_rows(self, rows: int) -> Sequence[Tensor]:
        """Keys and values of so many rows, with nothing in them."""
        if self._like[0].shape[2] != rows:
            self._like = [each[:, :, :1].expand(-1, -1, rows, -1) for each in self._like]
        return self._like


def _described(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    query, keys, values = _parts(attention.products)
    gate, up = _parts(mlp.products)
    size, scoring = attention.head_dim, attention.scoring
    shared = keys.out_features // size
    value_size = values.out_features // shared
    is_plain = not scoring.window and scoring.softcap is None and scoring.sinks is None
    if not is_plain or size % 8 or value_size % 8:
        raise ValueError(f"the call is not made for heads of {size} and {value_size} values with {scoring}")
    return _Layer(
        *map(_linear, (query, keys, values, attention.o_proj, gate, up, mlp.down_proj)),
        _norm(layer.input_layernorm), _norm(layer.post_attention_layernorm), *_head_norms(attention),
        query.out_features // size, shared, size, value_size, scoring.scale, mlp.activation == "gelu_tanh",
    )  # fmt: skip


def _parts(products: nn.Module) -> Sequence[Any]:
    if not isinstance(products, SeparateProducts):
        raise TypeError(f"products must be apart, got {type(products).__name__}")
    return tuple(products.parts)


def _linear(linear: nn.Module) -> _Linear:
    if not isinstance(linear, NativeInt8Linear):
        raise TypeError(f"a product must be of 8 bits, got {type(linear).__name__}")
    bias = None if linear.bias is None else _floats(linear.bias)
    sizes = (linear.in_features, linear.out_features, linear.limit)
    return _Linear(linear.packed.data_ptr(), _floats(linear.scale), bias, *sizes)


def _norm(norm: nn.Module) -> _Norm:
    if not isinstance(norm, FusedNorm):
        raise TypeError(f"a norm must be fused, got {type(norm).__name__}")
    return _Norm(_floats(norm.weight), norm.shape.eps, norm.shape.norm_weight.adds_one)


def _head_norms(attention: Any) -> tuple[_Norm, _Norm]:
    if not (isinstance(attention.q_norm, nn.Identity) and isinstance(attention.k_norm, nn.Identity)):
        raise TypeError(f"norms of heads must be all alike, got {type(attention.q_norm).__name__}")
    if attention.head_norms is None:
        return _Norm(), _Norm()
    query, keys, shape = attention.head_norms
    rest = (shape.eps, shape.norm_weight.adds_one)
    return _Norm(_floats(query), *rest), _Norm(_floats(keys), *rest)


def _floats(tensor: Tensor) -> int:
    """Where it lies; raises TypeError unless it is dense float32."""
    if tensor.dtype != torch.float32 or not tensor.is_contiguous():
        raise TypeError(f"the call reads dense float32, got {tensor.dtype} {tensor.stride()}")
    return tensor.data_ptr()
