"""Reads the weights of a GGUF file with transformers' names and shapes.

Each weight is read when transformers asks for it, so no second copy of the model is in memory.

    model.layers.0.self_attn.q_proj.weight    the model's name
    blk.0.attn_q.weight                       the file's name, found in gguf-py's table
    Tensor                                    its values, with the converter's change undone (UNDO)
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import gguf
import numpy as np
import torch
from gguf.quants import dequantize
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from app.engine.layers.packed_weight import SLICE, Numbers
from app.engine.loading.gguf_blocks import read_blocks
from app.engine.loading.kept_layers import KeptWeight, shape_in
from app.values.gguf_architectures import ARCHITECTURES, Change
from app.values.gguf_header import GgufHeader, GgufTensor, kept_bits

AT_ONCE = 2**24
"""Maximum number of elements that are dequantised at a time. It is limited because intermediate results take
several times as much memory."""
PACKED_AT_ONCE = 2**21
"""About how many numbers are packed at a time: with fewer, Python takes a quarter more time between them."""
SMALL = 2**20
"""Tensors of at most this many elements are read as float32, without loss. Larger tensors are converted to the
model's dtype while they are read."""
FLOATS = {"F32": np.float32, "F16": np.float16}
SUFFIX = re.compile(r"[._](weight|bias)$")
NUMBERED = re.compile(r"(?:\.norms)?\.(\d+)(\.weight)$")
"""Matches the end of a weight's name if one tensor of the file may contain several weights, as for experts."""
LAYER = re.compile(r"blk\.(\d+)\.")
KEYS_AND_VALUES = re.compile(r"\.attn_[kv](_norm)?\.")
FREQUENCIES = re.compile(r"rope_freqs|rope_factors|rot_embd")
NAMES = (
    (r"\.experts\.(gate_up|up|down)_proj$", r"ffn_\1_exps"),
    (r"(e_score_correction|\.expert)$", "exp_probs_b"),
    (r"router\.scale$", "ffn_gate_inp.scale"),
    (r"router\.per_expert_scale$", "ffn_down_exps.scale"),
    (r"(router|router\.proj|(mixer|mlp)\.gate)$", "ffn_gate_inp"),
    (r"shared_mlp\.input_linear$", "ffn_gate_up_shexp"),
    (r"shared_mlp\.output_linear$", "ffn_down_shexp"),
    (r"shared_mlp\.input_linear$", "ffn_gate_up"),
    (r"shared_mlp\.output_linear$", "ffn_down"),
    (r"shared_experts\.(gate|up|down)_proj$", r"ffn_\1_shexp"),
    (r"(pre_ff_layernorm|ffn_norm)$", "ffn_norm"),
    (r"(attn|ffn)_sub_norm$", r"\1_sub_norm"), (r"linear_attn\.in_proj_qkvz$", "attn_qkvz"),
    (r"\.dt$", "ssm_dt"), (r"mixer\.A_log$", "ssm_a"), (r"mixer\.D$", "ssm_d"),
    (r"mixer\.(conv1d|norm)$", r"ssm_\1"), (r"mixer\.(in|out)_proj$", r"ssm_\1"),
    (r"mixer\.([qkv])_proj$", r"attn_\1"), (r"mixer\.o_proj$", "attn_output"),
    (r"mixer\.(up|down)_proj$", r"ffn_\1"),
)  # fmt: skip
"""Names of modules that gguf-py's table lacks, each with its name in GGUF files on the hub."""
JOINED: Mapping[str, Sequence[str]] = {
    "ffn_gate_up_exps": ("ffn_gate_exps", "ffn_up_exps"),
    "ffn_gate_up_shexp": ("ffn_gate_shexp", "ffn_up_shexp"),
    "ffn_gate_up": ("ffn_gate", "ffn_up"),
    "attn_qkv": ("attn_q", "attn_k", "attn_v"),
    "attn_qkvz": ("attn_qkv", "attn_gate"),
    "attn_kv_b": ("attn_k_b", "attn_v_b"),
}
"""Names of weights that a file may store as several tensors, and the names of these tensors, which are joined."""


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A weight of the model that is read when it is indexed, like a slice of a safetensors file."""

    parts: tuple[GgufTensor, ...]
    item: int
    changes: tuple[Change, ...]
    config: PreTrainedConfig
    shape: tuple[int, ...]
    dtype: torch.dtype

    def __post_init__(self) -> None:
        count, first = sum(part.numbers for part in self.parts), self.parts[0]
        if count != prod(self.shape) * (first.shape[0] if self.item >= 0 else 1):
            raise ValueError(
                f"its tensor {first.name} has the shape {first.shape}, which does not fit {self.shape}"
            )

    def get_shape(self) -> tuple[int, ...]:
        return self.shape

    def __getitem__(self, rows: Any) -> Tensor:
        """Read the weight, or a slice of its rows. Several tensors are joined by their rows. If the tensor contains
        several weights, the weight with index `item` is returned."""
        if isinstance(rows, slice):
            first, end, _ = rows.indices(self.shape[0])
            is_plain = len(self.parts) == 1 and self.item < 0 and not self.changes
            return read_tensor(_some(self.parts[0], first, end), self.dtype) if is_plain else self[...][rows]
        read = [read_tensor(part, self.dtype) for part in self.parts]
        if ".attn_k_b." in self.parts[0].name and len(read) > 1:
            read[0] = read[0].transpose(1, 2)
        by_head = "_exps." in self.parts[0].name or read[0].dim() == 3
        weight = torch.cat(read, 1 if by_head else 0) if len(read) > 1 else read[0]
        weight = weight if self.item < 0 else weight[self.item]
        return undo(weight, self.changes, self.config).reshape(self.shape).contiguous()


def stored_weights(
    header: GgufHeader, model: PreTrainedModel, dtype: torch.dtype, kept: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """Return a lazy weight for each weight of `model` that the file contains, and zeros for biases that the file
    lacks.

    The model may be on the meta device. `kept` has the names and shapes of weights that are to stay packed; they
    become KeptWeights if possible. Raises ValueError for a tensor of a wrong size, or one that no weight uses."""
    finder, used = _Finder(header), set[str]()
    packed = dict[str, KeptWeight]()
    # The parameters of Apertus' activation functions are not among the tensors.
    found: dict[str, Any] = {
        f"model.layers.{layer}.mlp.act_fn.{name}": torch.tensor([value] if "alpha" in name else value)
        for name in ("alpha_p", "alpha_n", "beta", "eps")
        for layer, value in enumerate(header.values.get(f"xielu.{name}", ()))
    }
    for name, wanted in model.state_dict().items():
        item = NUMBERED.search(name)
        parts, changes = finder.find(name.replace(item[0], item[2]) if item else name, wanted.shape)
        if parts:
            number = int(item[1]) if item else -1
            found[name] = StoredWeight(parts, number, changes, model.config, tuple(wanted.shape), dtype)
            used |= {part.name for part in parts}
            if (shape := shape_in(kept, name)) and number < 0 and can_keep(parts, changes):
                rows = (prod(shape[:-1]), shape[-1])
                slices = partial(packed_slices, parts, changes, model.config, rows)
                packed[name] = KeptWeight(tuple(wanted.shape), dtype, rows, slices)
        elif name.endswith("bias") and name not in found:
            found[name] = torch.zeros(wanted.shape)
    _require_used(header, used, model.config)
    # The matrices of a layer's experts stay packed together, or not at all.
    wanted = {name for name in model.state_dict() if shape_in(kept, name)}
    alone = {name.rpartition(".")[0] for name in wanted - packed.keys()}
    return found | {name: one for name, one in packed.items() if name.rpartition(".")[0] not in alone}


def _require_used(header: GgufHeader, used: Collection[str], config: PreTrainedConfig) -> None:
    """Raise ValueError if the file has a tensor that no weight of the model uses, because without this tensor the
    model would write a different text.

    Three kinds are exempt: layers after the model's last layer (used only for drafting), RoPE frequencies (they are
    in the config), and keys and values of layers that reuse those of an earlier layer (Gemma 3n and 4)."""
    layers = config.num_hidden_layers
    shared = layers - (getattr(config, "num_kv_shared_layers", 0) or 0)
    for name in (tensor.name for tensor in header.tensors if tensor.name not in used):
        layer = LAYER.match(name)
        last = shared if KEYS_AND_VALUES.search(name) else layers
        if not FREQUENCIES.search(name) and not (layer and int(layer[1]) >= last):
            raise ValueError(f"its tensor {name[:60]} is not known in a model of this architecture")


def read_tensor(tensor: GgufTensor, dtype: torch.dtype) -> Tensor:
    """Read and dequantise a tensor, piece by piece, to `dtype` or, if it is SMALL, to float32."""
    result = torch.empty(prod(tensor.shape), dtype=dtype if tensor.numbers > SMALL else torch.float32)
    kind = gguf.GGMLQuantizationType[tensor.stored]
    numbers, size = gguf.GGML_QUANT_SIZES[kind]
    step = AT_ONCE // numbers * numbers
    for begin in range(0, len(result), step):
        count = min(step, len(result) - begin)
        place = tensor.begin + begin // numbers * size
        block = np.fromfile(tensor.file, np.uint8, count // numbers * size, offset=place)
        result[begin : begin + count] = torch.from_numpy(
            dequantize(block.view(FLOATS.get(tensor.stored, np.uint8)), kind)
        )
    return result.reshape(tensor.shape)


def packed_slices(
    parts: tuple[GgufTensor, ...],
    changes: tuple[Change, ...],
    config: PreTrainedConfig,
    shape: tuple[int, int],
) -> Iterator[Numbers]:
    """Yield slices of the rows of a matrix or of a stack of matrices, without the converter's changes of order.

    Several tensors are joined by their rows. Raises ValueError for another number of rows than `shape` has."""
    mapped = list[Tensor]()
    for part in parts:
        shared = part.shape[:-1]
        # Mode "c" (copy on write), because torch warns of read-only memory.
        stored = np.memmap(part.file, np.uint8, "c", part.begin, (*shared, part.size // prod(shared)))
        mapped.append(torch.from_numpy(stored))
    rows = torch.cat(mapped, mapped[0].dim() - 2) if len(mapped) > 1 else mapped[0]
    if rows.dim() > 2:  # a stack's matrices stay transposed
        rows = (_in_turn(rows) if "alternating" in changes else rows).flatten(0, 1)
    else:
        rows = undo(rows, changes, config)
    if len(rows) != shape[0]:
        raise ValueError(
            f"its tensor {parts[0].name} has the shape {parts[0].shape}, which does not fit {shape}"
        )
    count = max(1, PACKED_AT_ONCE // shape[1] // SLICE) * SLICE
    for some in torch.split(rows, count):
        yield read_blocks(parts[0].stored, some.contiguous())


def can_keep(parts: tuple[GgufTensor, ...], changes: tuple[Change, ...]) -> bool:
    """Return whether these tensors can stay packed: whether all have the same packable type, and the converter has
    only moved whole rows or transposed experts."""
    first = parts[0]
    one_type = len({(part.stored, part.shape[-1], len(part.shape)) for part in parts}) == 1
    allowed = ROW_CHANGES if len(first.shape) == 2 else STACK_CHANGES
    is_packable = kept_bits(first.name, first.stored, first.shape, is_on_cpu=True) > 0
    return one_type and is_packable and set(changes) <= allowed


class _Finder:
    """Finds the tensors in a file that make up a weight of the model."""

    def __init__(self, header: GgufHeader) -> None:
        self._stored = {tensor.name: tensor for tensor in header.tensors}
        self._table = _table(header)
        self._changes = ARCHITECTURES[header.architecture].changes

    def find(self, name: str, shape: Sequence[int]) -> tuple[tuple[GgufTensor, ...], tuple[Change, ...]]:
        stem, suffix = SUFFIX.sub("", name), SUFFIX.search(name)
        for base in self._names(stem):
            for ending in ("." + suffix[1], "") if suffix else (".weight", ".bias", ""):
                if parts := self._parts(base, ending, shape):
                    changes = (
                        change for form, change in self._changes.items() if re.search(form, base + ending)
                    )
                    return parts, tuple(changes)
        return (), ()

    def _names(self, stem: str) -> Iterator[str]:
        """Yield names that the tensor may have in the file."""
        for one in (stem, stem.removeprefix("transformer."), stem.replace("model.", "backbone.", 1)):
            yield from self._table(one)
        layer = re.search(r"\.(\d+)\.", stem)
        for form, name in NAMES:
            if layer and (match := re.search(form, stem)):
                yield f"blk.{layer[1]}.{match.expand(name)}"

    def _parts(self, base: str, ending: str, shape: Sequence[int]) -> tuple[GgufTensor, ...]:
        if base + ending in self._stored:
            return (self._stored[base + ending],)
        block, _, leaf = base.rpartition(".")
        if leaf in JOINED["attn_qkv"] and (joined := self._stored.get(f"{block}.attn_qkv{ending}")):
            return _rows(joined, leaf, shape[0])
        names = [f"{block}.{one}{ending}" for one in JOINED.get(leaf, ())]
        return tuple(self._stored[one] for one in names) if self._stored.keys() >= set(names) else ()


def _rows(joined: GgufTensor, leaf: str, count: int) -> tuple[GgufTensor, ...]:
    """Return the queries, the keys or the values of a tensor that has all three; () if it has too few rows."""
    rows = joined.shape[0]
    first = {"attn_q": 0, "attn_k": rows - 2 * count, "attn_v": rows - count}[leaf]
    return (_some(joined, first, first + count),) if 0 <= first <= rows - count else ()


def _some(tensor: GgufTensor, first: int, end: int) -> GgufTensor:
    """Return the rows of a tensor from `first` to `end`."""
    size = tensor.size // tensor.shape[0]
    shape, begin = (end - first, *tensor.shape[1:]), tensor.begin + first * size
    return replace(tensor, shape=shape, begin=begin, size=size * (end - first))


def _table(header: GgufHeader) -> Callable[[str], Sequence[str]]:
    """Return a function that looks a name up in gguf-py's table, or in all tables for an unknown architecture."""
    layers = header.value("block_count")
    arch = next((arch for arch, name in gguf.MODEL_ARCH_NAMES.items() if name == header.architecture), None)
    # ARCTIC is left out, because gguf-py writes its entries into a dict that all tables share
    others = [one for one in gguf.MODEL_ARCH if one != gguf.MODEL_ARCH.ARCTIC]
    tables = [gguf.get_tensor_name_map(one, layers) for one in ([arch] if arch else others)]
    return lambda name: [found for table in tables if (found := table.get_name(name))]


Undo = Callable[[Tensor, PreTrainedConfig], Tensor]


def pairs(weight: Tensor, config: PreTrainedConfig) -> Tensor:
    """Sort the rows of each head: the first row of every pair, then the second row of every pair."""
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return weight.reshape(-1, size // 2, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)


def alternating(weight: Tensor, _config: PreTrainedConfig) -> Tensor:
    """Sort the rows so that gates and values alternate, and transpose the matrices of the experts."""
    turns = _in_turn(weight)
    return turns.transpose(-1, -2) if turns.dim() > 2 else turns


def _in_turn(weight: Tensor) -> Tensor:
    return torch.stack(weight.chunk(2, dim=1), dim=2).reshape(weight.shape)


def grouped(weight: Tensor, config: PreTrainedConfig) -> Tensor:
    """Sort the rows into groups: the queries that share a key and a value, then this key and this value."""
    heads = config.num_attention_heads
    groups = getattr(config, "num_kv_heads", None) or heads
    if getattr(config, "multi_query", False) and not config.new_decoder_architecture:
        groups = 1
    size = weight.shape[0] // (heads + 2 * groups)
    parts = weight.tensor_split((heads * size, (heads + groups) * size))
    return _by_group(parts, groups).reshape(weight.shape)


def _by_group(parts: Sequence[Tensor], groups: int) -> Tensor:
    """Join the parts group by group: the first group's rows from each part, then the second group's."""
    return torch.cat([part.reshape(groups, -1, *part.shape[1:]) for part in parts], dim=1)


def tiled_values(weight: Tensor, config: PreTrainedConfig) -> Tensor:
    """Sort the value heads of linear attention, which are the last rows, by their key heads."""
    keys, values = config.linear_num_key_heads, config.linear_num_value_heads
    size = config.linear_value_head_dim if weight.shape[0] >= values * config.linear_value_head_dim else 1
    first, last = weight.tensor_split([weight.shape[0] - values * size])
    heads = last.reshape(values // keys, keys, size, *weight.shape[1:]).transpose(0, 1)
    return torch.cat((first, heads.reshape(last.shape)))


def mixed(weight: Tensor, config: PreTrainedConfig) -> Tensor:
    """Sort the rows of linear attention into one block for each key head: queries, keys, values and gates."""
    keys = config.linear_num_key_heads
    size = config.linear_key_head_dim * keys
    parts = weight.tensor_split((size, 2 * size, size + weight.shape[0] // 2))
    return _by_group(parts, keys).reshape(weight.shape)


UNDO: Mapping[Change, Undo] = {
    "pairs": pairs, "alternating": alternating, "grouped": grouped, "tiled values": tiled_values, "mixed": mixed,
    "minus one": lambda weight, _: weight - 1.0,
    "log": lambda weight, _: torch.log(-weight),
    "transposed": lambda weight, _: weight.transpose(-1, -2),
    "tiled columns": lambda weight, config: tiled_values(weight.T, config).T,
}  # fmt: skip


ROW_CHANGES: Set[Change] = {"pairs", "grouped", "tiled values", "mixed"}
"""Changes that only move rows, so that they can be undone in packed rows, too."""
STACK_CHANGES: Set[Change] = {"alternating", "transposed"}
"""Changes that are allowed for stacked matrices that stay packed. In these, "transposed" is not undone."""


def undo(weight: Tensor, changes: tuple[Change, ...], config: PreTrainedConfig) -> Tensor:
    """Return the weight without the converter's changes."""
    for change in changes:
        weight = UNDO[change](weight, config)
    return weight
