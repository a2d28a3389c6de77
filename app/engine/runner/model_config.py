"""Reads a model's config: its context, the shape of its attention, its end tokens, its rotary tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from app.engine.attention.backend_choice import HeadShape
from app.engine.block.block import Block
from app.engine.runner.kv_cache import attention_windows
from app.values.model import UNKNOWN_CONTEXT


def heads_of(config: PreTrainedConfig, dtype: torch.dtype) -> HeadShape:
    """Return the shape of a model's attention; the shape of the largest heads if layers differ, as in Gemma 4."""
    layers = config.per_layer_config if getattr(config, "is_heterogeneous", False) else [config]
    windows = tuple(sorted(set(attention_windows(config)))) or (0,)
    softcap = getattr(config, "attn_logit_softcapping", None)

    def heads(layer: PreTrainedConfig) -> HeadShape:
        count = int(getattr(layer, "num_attention_heads", None) or 1)
        shared = int(getattr(layer, "num_key_value_heads", None) or count)
        size = int(getattr(layer, "head_dim", None) or layer.hidden_size // count)
        return HeadShape(count, shared, size, dtype, windows, softcap)

    return max(map(heads, layers), key=lambda heads: heads.size)


def context_of(config: PreTrainedConfig) -> int:
    """Return the model's number of positions, times the factor of a dynamic rotary table; UNKNOWN_CONTEXT if the
    number is unknown."""
    positions = getattr(config, "max_position_embeddings", None)
    if not positions:
        return UNKNOWN_CONTEXT
    rope = getattr(config, "rope_parameters", None) or {}
    factor = rope.get("factor", 1) if rope.get("rope_type") == "dynamic" else 1
    return int(positions * factor)


def eos_ids(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, turn_ends: Sequence[str] = ()
) -> frozenset[int]:
    """Collect every id that ends a reply, from the generation config, the config and the tokenizer.

    If none of the chat template's `turn_ends` is among these ids, the first turn end is added."""
    generation = model.generation_config.eos_token_id if model.generation_config else None
    given = (generation, model.config.eos_token_id, getattr(tokenizer, "eos_token_id", None))
    several = ([ids] if isinstance(ids, int) else ids or () for ids in given)
    listed = frozenset(chain.from_iterable(several))
    ends = [int(str(tokenizer.convert_tokens_to_ids(token))) for token in turn_ends]
    return listed if listed.intersection(ends) else listed.union(ends[:1])


@dataclass(frozen=True, slots=True)
class Rotary:
    """How a model's rotary table depends on the farthest position of a pass.

    Two kinds of model rotate all positions differently as soon as a pass reaches beyond a length S:

        longrope   two tables, the short one while every position is below S, else the long one (Phi-3)
        dynamic    beyond S a new table for every length (dynamic NTK)

    A block must not lie across S, because its drafts would change the rows before them; `horizon` returns how
    far a block may reach. A prompt that is longer than S is read in chunks, and all chunks must be read with
    the same table. So each chunk ends with an anchor: a row at a far position. No other row sees it, and it
    is never committed. `switch` is S, or the context if the table is fixed."""

    kind: Literal["fixed", "longrope", "dynamic"]
    switch: int

    def horizon(self, position: int, context: int) -> int:
        """Return the first position that a block must not reach if its current token is at `position`."""
        if position < self.switch:
            return self.switch
        return position + 1 if self.kind == "dynamic" else context

    def is_long(self, length: int) -> bool:
        """Return whether a token sequence of this length needs another rotary table than a short one."""
        return self.kind != "fixed" and length > self.switch


def rotary_of(config: PreTrainedConfig, context: int) -> Rotary:
    """Return the rotary table of a model with this config; if several tables are not fixed, the table with the
    smallest switch."""
    config = config.get_text_config(decoder=True)
    parameters = getattr(config, "rope_parameters", None) or {}
    one_set = "rope_type" in parameters  # otherwise there is a set for each kind of layer
    sets = [parameters] if one_set else [value for value in parameters.values() if isinstance(value, dict)]
    found = list[Rotary]()
    for each in sets:
        if each.get("rope_type") == "longrope":
            found.append(Rotary("longrope", each["original_max_position_embeddings"]))
        elif each.get("rope_type") == "dynamic":
            found.append(Rotary("dynamic", config.max_position_embeddings))
    return min(found, key=lambda rotary: rotary.switch, default=Rotary("fixed", context))


def anchored(block: Block, position: int) -> Block:
    """Append a row at `position` to the block. The row sees no other row of the block, and no row sees it."""
    tokens, positions = (*block.tokens, block.tokens[0]), (*block.positions, position)
    return Block(tokens, positions, (*block.parents, -1), block.wanted)
