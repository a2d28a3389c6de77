"""Undoes what llama.cpp's converter changed in tensors; `Change` in gguf_architectures.py describes each change."""

from collections.abc import Callable, Mapping, Sequence, Set

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from app.values.gguf_architectures import Change

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
"""Changes that only move rows, which can be undone in packed rows, too."""
STACK_CHANGES: Set[Change] = {"alternating", "transposed"}
"""Changes that are allowed for stacked matrices that stay packed. In these, "transposed" is not undone."""


def undo_in_stack(rows: Tensor, changes: tuple[Change, ...]) -> Tensor:
    """Return packed rows [experts, rows, bytes] with gates and values in transformers' order."""
    return _in_turn(rows) if "alternating" in changes else rows


def undo(weight: Tensor, changes: tuple[Change, ...], config: PreTrainedConfig) -> Tensor:
    """Return the weight without the converter's changes."""
    for change in changes:
        weight = UNDO[change](weight, config)
    return weight
