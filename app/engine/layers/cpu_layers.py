"""Runs layers on the CPU with kernels in C. A call computes a part of a layer, one layer, or all decoder layers.

Calls for whole layers need integer weights. All three kinds of calls give bitwise identical results."""

from collections.abc import Mapping, Sequence
from ctypes import CDLL, Structure, c_float, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPast

from app.engine.attention import BlockView
from app.engine.attention.native import MAX_ROWS, NativeAttention
from app.engine.block.block import CacheSlots
from app.engine.cpu_kernels import packed_kernels
from app.engine.layers.fused_modules import Activation, FusedLayer, HeadNorms, NormShape
from app.engine.layers.int8_linear_cpu import NativeInt8Linear
from app.engine.layers.packed_layers import PackedExperts, PackedLinear
from app.engine.layers.packed_weight import CPacked, CpuPackedWeight
from app.engine.runner.kv_cache import CACHE_NAME, BlockCache


@dataclass(frozen=True, slots=True)
class CpuKernels:
    """`LayerKernels` on the CPU, in float32."""

    library: CDLL

    def rms_norm(self, states: Tensor, weight: Tensor, shape: NormShape) -> Tensor:
        return self._norm(states, None, weight, shape)[1]

    def add_rms_norm(
        self, states: Tensor, others: Tensor, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        return self._norm(states, others, weight, shape)

    def _norm(
        self, states: Tensor, others: Tensor | None, weight: Tensor, shape: NormShape
    ) -> tuple[Tensor, Tensor]:
        """Add `others`, and return the sum and its norm. Without `others`, return the norm of `states` twice."""
        states, others = states.contiguous(), None if others is None else others.contiguous()
        out = torch.empty_like(states)
        total = out if others is None else torch.empty_like(states)
        size = _checked(states, weight, total, out).shape[-1]
        self.library.rms_norm(
            states.data_ptr(), None if others is None else others.data_ptr(), weight.data_ptr(),
            states.numel() // size, size, shape.eps, shape.adds_one, total.data_ptr(), out.data_ptr(),
        )  # fmt: skip
        return total, out

    def gated_activation(self, gate: Tensor, up: Tensor, activation: Activation) -> Tensor:
        size = gate.shape[-1]
        gates, ups = gate.reshape(-1, size), up.reshape(-1, size)
        out = torch.empty(gates.shape)
        _checked(gates, ups, out)
        self.library.gated_activation(
            gates.data_ptr(), gates.stride(0), ups.data_ptr(), ups.stride(0), len(gates), size,
            activation == "gelu_tanh", out.data_ptr(), torch.get_num_threads(),
        )  # fmt: skip
        return out.view(gate.shape)

    def write_rotated(
        self,
        states: tuple[Tensor, Tensor, Tensor],
        tables: tuple[Tensor, Tensor],
        slots: CacheSlots,
        norms: HeadNorms | None = None,
    ) -> Tensor:
        query, keys, values = states
        if norms:
            query = self.rms_norm(query, norms.query, norms.shape)
            keys = self.rms_norm(keys, norms.keys, norms.shape)
        cos, sin = (table.contiguous() for table in tables)
        slots.write(self._rotated(keys, cos, sin), values)
        return self._rotated(query, cos, sin)

    def _rotated(self, states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        _, heads, rows, size = states.shape
        out = torch.empty((1, rows, heads, size))
        _checked(states, cos, sin, out)
        _, head_stride, row_stride, _ = states.stride()
        self.library.rotate(
            states.data_ptr(), head_stride, row_stride, cos.data_ptr(), sin.data_ptr(), heads, rows, size,
            cos.shape[-1], out.data_ptr(),
        )  # fmt: skip
        return out.transpose(1, 2)


def _checked(first: Tensor, *others: Tensor) -> Tensor:
    """Return the first tensor. Raises ValueError unless all are float32 and contiguous in the last dimension."""
    for tensor in (first, *others):
        if tensor.dtype != torch.float32 or tensor.stride(-1) != 1:
            raise ValueError(f"CPU kernels take contiguous float32, not {tensor.dtype} {tensor.stride()}")
    return first


class _Int8(Structure):
    _fields_ = (
        ("weight", c_void_p), ("scale", c_void_p), ("bias", c_void_p), ("size", c_int64), ("outs", c_int64),
        ("limit", c_int32),
    )  # fmt: skip


class _Norm(Structure):
    _fields_ = (("weight", c_void_p), ("eps", c_float), ("adds_one", c_int32))


def _fields(linear: type[Structure]) -> Any:
    return (
        *((name, linear) for name in ("query", "keys", "values", "output", "gate", "up", "down")),
        *((name, _Norm) for name in ("input", "post", "query_norm", "key_norm")),
        *((name, c_int64) for name in ("heads", "shared", "size", "value_size")),
        ("scale", c_float), ("is_gelu", c_int32),
    )  # fmt: skip


class _Int8Layer(Structure):
    """Mirrors the struct Layer in layer.h, with weights of 8 bits."""

    _fields_ = _fields(_Int8)


class _PackedLayer(Structure):
    """Mirrors the struct Layer in layer.h, with packed weights."""

    _fields_ = _fields(CPacked)


class _Slots(Structure):
    """Mirrors the struct Slots in layer.h."""

    _fields_ = (("keys", c_void_p), ("values", c_void_p), ("key_head", c_int64), ("value_head", c_int64))


class Workspace:
    """Temporary memory of a step, which the layers use one after the other."""

    def __init__(self) -> None:
        self._floats = torch.empty(0)

    def of(self, count: int) -> Tensor:
        """Return memory for at least this many floats. Enlarges the memory if needed."""
        if len(self._floats) < count:
            self._floats = torch.empty(count)
        return self._floats


class _Layers:
    """Consecutive layers that one call computes."""

    def __init__(self, layers: "Sequence[NativeLayer]", library: CDLL, workspace: Workspace) -> None:
        self.is_mixture = any(layer.is_mixture for layer in layers)
        described: list[Any] = [layer.described for layer in layers]
        self._described: Any = (type(described[0]) * len(layers))(*described)
        self._library, self._workspace = library, workspace
        self._indexes = [layer.layer.self_attn.layer_idx for layer in layers]
        self._slots = (_Slots * len(layers))()
        self._cache: ref[BlockCache] | None = None
        self._version = self._capacity = 0

    def compute(
        self, states: Tensor, tables: tuple[Tensor, Tensor], cache: BlockCache, view: BlockView
    ) -> Tensor:
        """Overwrite states [1, T, size] with the layers' output; return them. Writes keys and values to the cache.

        `tables` are the positions' cos and sin [1, T, W]. With a mixture of experts, `states` become only the
        residual sum after attention, and the norm of this sum [1, T, size] is returned."""
        rows = states.shape[1]
        self._find_slots(cache, rows)
        cos, sin = (table.contiguous() for table in tables)
        described, count, prefix = self._described, len(self._described), cache.length
        visible = view.visible
        space = self._workspace.of(self._library.decoder_layers_room(described, count, rows, prefix))
        normed = torch.empty_like(states) if self.is_mixture else states
        step = (rows, cos.data_ptr(), sin.data_ptr(), cos.shape[-1], prefix, visible.ctypes.data)
        room = (space.data_ptr(), torch.get_num_threads())
        if self.is_mixture:
            self._library.attention_layer(
                described, self._slots, *step, states.data_ptr(), normed.data_ptr(), *room
            )
        else:
            self._library.decoder_layers(described, self._slots, count, *step, states.data_ptr(), *room)
        return normed

    def _find_slots(self, cache: BlockCache, rows: int) -> None:
        """Reserve the rows' slots; read the addresses of keys and values again if they may have changed."""
        is_known = self._cache is not None and self._cache() is cache and self._version == cache.version
        if is_known and cache.length + rows <= self._capacity:
            return
        for place, (index, layer) in enumerate(zip(self._indexes, self._described, strict=True)):
            like = (torch.empty((1, layer.shared, rows, size)) for size in (layer.size, layer.value_size))
            keys, values = cache.slots_for(index, *like)[:2]
            self._slots[place] = _Slots(keys.data_ptr(), values.data_ptr(), keys.stride(1), values.stride(1))
        self._cache, self._version, self._capacity = ref(cache), cache.version, cache.capacity


class NativeLayer(nn.Module):
    """Computes a fused layer with one call into C; if the layer has experts, its MLP is computed separately.

    Steps that the call does not support are computed part by part."""

    def __init__(self, layer: FusedLayer, library: CDLL, workspace: Workspace) -> None:
        """Describe the layer for the call. Raises AttributeError, TypeError or ValueError for unsupported parts."""
        super().__init__()
        self.layer = layer
        self.is_mixture = any(isinstance(part, PackedExperts) for part in layer.mlp.children())
        self.described = _described(layer, self.is_mixture)
        packed = packed_kernels() if isinstance(self.described, _PackedLayer) else None
        self.library, self.workspace = packed or library, workspace
        self._one = _Layers([self], self.library, workspace)

    def forward(self, hidden_states: Tensor, **named: Any) -> Tensor:
        """Compute the layer's output, states [1, T, size], and write its keys and values to the cache."""
        if not _suits(hidden_states.shape[1], named):
            answer: Tensor = self.layer(hidden_states, **named)
            return answer
        out = hidden_states.clone(memory_format=torch.contiguous_format)
        normed = self._one.compute(out, named["position_embeddings"], named[CACHE_NAME], named["block"])
        return out + self.layer.mlp(normed) if self.is_mixture else out


class NativeDecoder(nn.Module):
    """A decoder whose layers are all computed by one call into C. The embeddings and the last norm stay modules.

    Steps that the call does not support, and all steps while a layer has forward hooks, run in `decoder` itself."""

    def __init__(self, decoder: Any) -> None:
        """Raise TypeError unless all layers are NativeLayers without experts and with the same kind of weights."""
        super().__init__()
        self.decoder, self.layers = decoder, decoder.layers
        self.embed_tokens, self.rotary_emb, self.norm = decoder.embed_tokens, decoder.rotary_emb, decoder.norm
        kinds = {type(layer.described) if isinstance(layer, NativeLayer) else None for layer in self.layers}
        if len(kinds) != 1 or None in kinds or any(layer.is_mixture for layer in self.layers):
            raise TypeError(f"all layers must be NativeLayers with the same kind of weights, not {kinds}")
        first = self.layers[0]
        self._native = list(self.layers)
        self._all = _Layers(self._native, first.library, first.workspace)

    def get_decoder(self) -> "NativeDecoder":
        """Return this decoder; transformers calls this on a base model."""
        return self

    def forward(self, input_ids: Tensor | None = None, **named: Any) -> BaseModelOutputWithPast:
        """Return the final states [1, T, size] of these ids, and write keys and values to the cache."""
        has_hooks = any(layer._forward_hooks for layer in self._native)
        if input_ids is None or has_hooks or not _suits(input_ids.shape[1], named):
            answer: BaseModelOutputWithPast = self.decoder(input_ids=input_ids, **named)
            return answer
        cache: BlockCache = named[CACHE_NAME]
        states = self.embed_tokens(input_ids).contiguous()
        tables = self.rotary_emb(states, position_ids=named["position_ids"])
        self._all.compute(states, tables, cache, named["block"])
        return BaseModelOutputWithPast(last_hidden_state=self.norm(states))


def _suits(rows: int, named: Mapping[str, Any]) -> bool:
    return rows <= MAX_ROWS and isinstance(named["block"].attend, NativeAttention)


def _described(layer: Any, is_mixture: bool) -> _Int8Layer | _PackedLayer:
    attention, mlp = layer.self_attn, layer.mlp
    query, keys, values = attention.products.parts
    size, scoring = attention.head_dim, attention.scoring
    shared = keys.out_features // size
    value_size = values.out_features // shared
    if not scoring.is_plain or size % 8 or value_size % 8:
        raise ValueError(f"the call does not support heads of {size} and {value_size} values with {scoring}")
    is_packed = isinstance(query, PackedLinear)
    kind, of_linear = (_PackedLayer, _packed) if is_packed else (_Int8Layer, _int8)
    linears = list(map(of_linear, (query, keys, values, attention.o_proj)))
    if is_mixture:
        linears += [type(linears[0])()] * 3
    else:
        linears += map(of_linear, (*mlp.products.parts, mlp.down_proj))
    return kind(
        *linears, _norm(layer.input_layernorm), _norm(layer.post_attention_layernorm), *_head_norms(attention),
        query.out_features // size, shared, size, value_size, scoring.scale,
        not is_mixture and mlp.activation == "gelu_tanh",
    )  # fmt: skip


def _int8(linear: nn.Module) -> _Int8:
    if not isinstance(linear, NativeInt8Linear):
        raise TypeError(f"a linear layer must have weights of 8 bits; it is a {type(linear).__name__}")
    bias = None if linear.bias is None else _floats(linear.bias)
    sizes = (linear.in_features, linear.out_features, linear.limit)
    return _Int8(linear.packed.data_ptr(), _floats(linear.scale), bias, *sizes)


def _packed(linear: nn.Module) -> CPacked:
    if not (isinstance(linear, PackedLinear) and isinstance(linear.packed, CpuPackedWeight)):
        raise TypeError(f"a linear layer must have packed weights; it is a {type(linear).__name__}")
    if linear.bias is not None:
        _floats(linear.bias)
    return linear.packed.described(linear.bias)


def _norm(norm: Any) -> _Norm:
    return _Norm(_floats(norm.weight), norm.shape.eps, norm.shape.adds_one)


def _head_norms(attention: Any) -> tuple[_Norm, _Norm]:
    if not (isinstance(attention.q_norm, nn.Identity) and isinstance(attention.k_norm, nn.Identity)):
        raise TypeError(f"the kernel must normalise the heads, not a {type(attention.q_norm).__name__}")
    if attention.head_norms is None:
        return _Norm(), _Norm()
    query, keys, shape = attention.head_norms
    rest = (shape.eps, shape.adds_one)
    return _Norm(_floats(query), *rest), _Norm(_floats(keys), *rest)


def _floats(tensor: Tensor) -> int:
    """Return the tensor's address. Raises TypeError unless it is float32 and contiguous."""
    if tensor.dtype != torch.float32 or not tensor.is_contiguous():
        raise TypeError(f"the call reads contiguous float32, not {tensor.dtype} {tensor.stride()}")
    return tensor.data_ptr()
