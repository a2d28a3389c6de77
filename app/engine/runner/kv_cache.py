"""The KV cache. No other module uses transformers' cache classes.

Each layer has a buffer for keys and a buffer for values, which are allocated ahead and grow in chunks. A step
writes its block after the committed rows; a commit moves the accepted rows down and forgets the rest:

    committed  block                 after commit([0, 2])
    A B C    | d e f g               A B C d f
    length=3   rows 0..3             length=5

Rows count only when they are committed, so a step that was stopped or failed leaves the cache as it was. When a
buffer is allocated anew, `version` changes, and steps that were recorded as CUDA graphs with the old buffer are
invalid. Sliding-window layers keep every row, too, because the attention applies their window by position.
Recurrent layers have a state instead of rows (`recurrent_state.py`); a cache with such layers can only be rewound
to 0 and to lengths whose states it has kept.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from inspect import signature
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionCacheLayerMixin,
)
from transformers.modeling_outputs import CausalLMOutputWithPast

from app.engine.block.block import Block, CacheSlots
from app.engine.machine.hardware import uploaded
from app.engine.runner.recurrent_state import BlockInPass, RecurrentLayer, RecurrentState, StatesByLength
from app.values.model import KEPT_STATES

CACHE_NAME = "cache" if hasattr(CausalLMOutputWithPast, "cache") else "past_key_values"
"""The argument by which models and their layers take a cache: `cache` since transformers 5.24."""
STATE_NAME = "cache_params"
"""The argument by which Mamba and Mamba 2 took their cache before transformers 5.24."""

CHUNK = 512
"""The size of a buffer is a multiple of this many rows."""

AHEAD = 2048
"""Rows that are reserved after a prompt, because growing copies a buffer and makes recorded steps invalid."""

Allocate = Callable[[Tensor, int], Tensor]
"""States [1, heads, rows, size] and a capacity -> an empty buffer [1, heads, capacity, size] like them."""


@cache
def cache_name(forward: Callable[..., Any]) -> str:
    """Return the argument by which the forward method of a model's class takes a cache."""
    return STATE_NAME if STATE_NAME in signature(forward).parameters else CACHE_NAME


def empty_rows(states: Tensor, capacity: int) -> Tensor:
    """Allocate a buffer without initialising it."""
    return states.new_empty((*states.shape[:2], capacity, states.shape[3]))


@dataclass(slots=True)
class _Room:
    """State that layers share: the allocator, the minimum rows of a buffer, and how often layers got new
    buffers."""

    allocate: Allocate
    rows: int = 0
    version: int = 0


def layer_windows(config: PreTrainedConfig) -> list[int]:
    """List each layer's sliding window, 0 for a full layer; [] if a layer is of any other kind."""
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        layers = DynamicCache(config=config).layers
        plain = all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
        return [getattr(layer, "sliding_window", 0) for layer in layers] if plain else []
    if not set(kinds) <= {"full_attention", "sliding_attention"}:
        return []
    return [config.sliding_window if kind == "sliding_attention" else 0 for kind in kinds]


def attention_windows(config: PreTrainedConfig) -> list[int]:
    """List the sliding window of each layer that attends, 0 for a full layer."""
    layers = DynamicCache(config=config).layers
    return [getattr(layer, "sliding_window", 0) for layer in layers if isinstance(layer, DynamicLayer)]


LayerKind = Literal["attention", "recurrent", "hybrid", "none"]
"""What a layer keeps: keys and values, a recurrent state, both, or nothing."""


def layer_kinds(config: PreTrainedConfig) -> list[LayerKind]:
    """List what each layer keeps; [] if a layer keeps anything else."""
    kinds: list[LayerKind] = []
    for layer in DynamicCache(config=config).layers:
        if isinstance(layer, LinearAttentionCacheLayerMixin) and layer.number_of_states == 1:
            kinds.append("hybrid" if isinstance(layer, DynamicLayer) else "recurrent")
        elif type(layer) in (DynamicLayer, DynamicSlidingWindowLayer):
            kinds.append("attention")
        elif type(layer).__name__ == "DummyLayer":  # transformers has it since 5.24
            kinds.append("none")
        else:
            return []
    return kinds


def stock_cache(config: PreTrainedConfig) -> Cache:
    """Make transformers' own cache for a model; it supports every kind of layer."""
    return DynamicCache(config=config)


class _Layer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's keys and values [1, heads, capacity, size], of which the first `length` rows are committed."""

    is_sliding = False
    is_croppable = True

    def __init__(self, room: _Room) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._room = room
        self.length = 0
        self.slots: Tensor | None = None  # where rows are written; None: after the committed rows
        self.device = torch.device("cpu")

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = empty_rows(key_states, 0)
        self.values = empty_rows(value_states, 0)
        self.device = key_states.device
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write a block after the committed rows; return views of the committed rows and the block's."""
        slots = self.slots_for(key_states, value_states)
        slots.write(key_states, value_states)
        return slots.up_to(key_states.shape[2])

    def slots_for(self, key_states: Tensor, value_states: Tensor) -> CacheSlots:
        """Return the slots for states of this shape. Allocates or grows the buffers if needed."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        rows = 0 if self.slots is not None else self.length + key_states.shape[2]
        return CacheSlots(*self.buffers(rows), self.length, self.slots)

    def keep(self, rows: Tensor, end: int) -> None:
        """Move these rows of the block (indices in the buffer, ascending) down, so that they directly follow the
        committed rows and end before row `end`."""
        # index_select makes a copy, because source and target rows may overlap.
        for buffer in self.buffers(end):
            buffer[:, :, self.length : end] = buffer.index_select(2, rows)

    def move(self, sources: Tensor, targets: Tensor) -> None:
        for buffer in self.buffers(0):
            buffer.index_copy_(2, targets, buffer.index_select(2, sources))

    def restore(self, keys: Tensor, values: Tensor, end: int) -> None:
        """Copy these states' rows, from the committed length up to row `end`, into the buffers."""
        rows = slice(self.length, end)
        for buffer, states in zip(self.buffers(end), (keys, values), strict=True):
            buffer[:, :, rows] = states[:, :, rows]

    def give_back(self, capacity: int) -> None:
        """Shrink the buffers to this capacity, which includes the committed rows."""
        assert self.keys is not None and self.values is not None
        if max(self.keys.shape[2], self.values.shape[2]) > capacity:
            self._resize(self.keys, self.values, capacity)

    @property
    def capacity(self) -> int:
        """Rows that fit into both buffers. Their sizes differ if a buffer failed to grow."""
        if self.keys is None or self.values is None:
            return 0
        return min(self.keys.shape[2], self.values.shape[2])

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1

    def buffers(self, rows: int) -> tuple[Tensor, Tensor]:
        """Return both buffers, after growing them to at least `rows` rows if needed."""
        assert self.keys is not None and self.values is not None
        if rows > self.capacity:
            self._resize(self.keys, self.values, _whole_chunks(max(rows, self._room.rows)))
        return self.keys, self.values

    def _resize(self, keys: Tensor, values: Tensor, capacity: int) -> None:
        """Allocate both buffers anew, and copy the committed rows. Without committed rows, the old buffers are
        freed first."""
        self._room.version += 1
        if not self.length:
            self.keys, self.values = keys, values = empty_rows(keys, 0), empty_rows(values, 0)
        self.keys = self._copied(keys, capacity)
        self.values = self._copied(values, capacity)

    def _copied(self, buffer: Tensor, capacity: int) -> Tensor:
        copied = self._room.allocate(buffer, capacity)
        copied[:, :, : self.length] = buffer[:, :, : self.length]
        return copied


class _RecurrentLayer(RecurrentLayer, LinearAttentionCacheLayerMixin): ...


class _HybridLayer(_Layer, _RecurrentLayer):  # type: ignore[misc, no-untyped-call]
    """A layer that attends and has a recurrent state."""

    def __init__(self, room: _Room, running: BlockInPass) -> None:
        RecurrentLayer.__init__(self, running)
        _Layer.__init__(self, room)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:  # type: ignore[override]
        _Layer.lazy_initialization(self, key_states, value_states)


def are_in_place(rows: Sequence[int]) -> bool:
    """Return whether these rows are 0, 1, 2, ..., so that a commit of them moves nothing."""
    return all(row == place for place, row in enumerate(rows))


def _whole_chunks(rows: int) -> int:
    return -(-rows // CHUNK) * CHUNK


class BlockCache(Cache):
    """All layers' keys and values, and their recurrent states, with one committed length."""

    def __init__(self, allocate: Allocate = empty_rows, kinds: Sequence[LayerKind] = ()) -> None:
        """Make an empty cache; without `kinds`, every layer has only keys and values."""
        self._room = _Room(allocate)
        # transformers calls this to make a layer, when the layer is first written to.
        super().__init__(layer_class_to_replicate=partial(_Layer, self._room))  # type: ignore[arg-type]
        self.length = 0
        self._known: list[_Layer] = []
        self._pass = BlockInPass()
        self._kept: StatesByLength = {}
        makers: dict[LayerKind, Callable[[], Any]] = {
            "attention": partial(_Layer, self._room),
            "recurrent": partial(_RecurrentLayer, self._pass),
            "hybrid": partial(_HybridLayer, self._room, self._pass),
            "none": DynamicLayer,
        }
        self.layers += [makers[kind]() for kind in kinds]
        self._recurrent = [layer for layer in self.layers if isinstance(layer, RecurrentLayer)]

    @property
    def is_recurrent(self) -> bool:
        """Whether a layer has a recurrent state, so that the cache cannot be rewound to every length."""
        return bool(self._recurrent)

    def begin(self, block: Block, device: torch.device) -> None:
        """Pass the next block to the recurrent layers. Raises ValueError for a tree that is too large for them."""
        if self._recurrent:
            self._pass.begin(block, device)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the committed length, which all layers share."""
        del layer_idx
        return self.length

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return how many keys a row of a block sees at most, and the position of the first key."""
        del layer_idx
        return self.length + query_length, 0

    @property
    def _rows(self) -> list[_Layer]:
        """The layers that have rows. They are searched anew if there are more layers, because transformers adds a
        layer when it is first written to."""
        if len(self._known) != len(self.layers):
            self._known = [layer for layer in self.layers if isinstance(layer, _Layer)]
        return self._known

    def slots_for(self, layer: int, key_states: Tensor, value_states: Tensor) -> CacheSlots:
        """Return the slots for a layer's states of this shape, for kernels that write states themselves."""
        while len(self.layers) <= layer:
            self.layers.append(_Layer(self._room))
        rows = self.layers[layer]
        assert isinstance(rows, _Layer)
        return rows.slots_for(key_states, value_states)

    def commit(self, rows: Sequence[int]) -> None:
        """Keep these rows of the newest block, in this order, and forget its other rows."""
        end = self.length + len(rows)
        # Rows 0, 1, 2, ... are in place already, as usual in plain decoding and prefill.
        if not are_in_place(rows):
            moved = np.array(rows, dtype=np.int64) + self.length
            on: dict[torch.device, Tensor] = {
                device: uploaded(moved, device) for device in {layer.device for layer in self._rows}
            }
            for layer in self._rows:
                layer.keep(on[layer.device], end)
        if self._recurrent:
            accepted = uploaded(np.array(rows, dtype=np.int64), self._pass.device)
            for recurrent in self._recurrent:
                recurrent.advance(accepted, rows[-1])
        self._set_length(end)

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy rows from the `sources` slots [n] to the `targets` slots [n] in every layer; nothing is copied to
        the host."""
        for layer in self._rows:
            layer.move(sources, targets)

    def advance(self, count: int) -> None:
        """Commit the next `count` rows, which directly follow the committed rows already."""
        self._set_length(self.length + count)

    @property
    def capacity(self) -> int:
        """Rows for which every layer has room; 0 before the first pass."""
        return min((layer.capacity for layer in self._rows), default=0)

    @property
    def version(self) -> int:
        """A number that changes whenever a buffer is allocated anew."""
        return self._room.version

    def reserve(self, rows: int) -> None:
        """Make room for `rows` rows in every layer; a layer without buffers gets them when it is first written to.

        If an allocation fails, raises its error, and no layer keeps more room than before."""
        before, self._room.rows = self.capacity, rows
        written = [layer for layer in self._rows if layer.is_initialized]
        try:
            for layer in written:
                layer.buffers(rows)
        except Exception:
            self._room.rows = before
            for layer in written:
                layer.give_back(before)
            raise

    def reserve_ahead(self, rows: int, most: int) -> None:
        """Make room for `rows` rows and AHEAD further rows, at most `most` in all, but always for `rows`."""
        self.reserve(max(rows, min(rows + AHEAD, most)))

    def give_back(self, rows: int) -> None:
        """Shrink the buffers to the fewest chunks that hold `rows` rows and all committed rows."""
        capacity = self._room.rows = _whole_chunks(max(rows, self.length))
        for layer in self._rows:
            layer.give_back(capacity)

    @contextmanager
    def writing_at(self, slots: Tensor) -> Iterator[None]:
        """Make layers write rows to these slots [T], inside the context. Buffers do not grow there."""
        for layer in self._rows:
            layer.slots = slots
        try:
            yield
        finally:
            for layer in self._rows:
                layer.slots = None

    def rewind(self, length: int) -> None:
        """Forget all rows from `length` on; raises ValueError for a length that is too large or not `reachable`."""
        if not 0 <= length <= self.length or self.reachable(length) < length:
            raise ValueError(f"cannot rewind a cache of {self.length} rows to {length}")
        if self._recurrent and length < self.length:
            self._kept = {at: states for at, states in self._kept.items() if at <= length}
            self._restore_states(self._kept[length] if length else [RecurrentState()] * len(self._recurrent))
        self._set_length(length)

    def reachable(self, length: int) -> int:
        """Return the largest length up to `length` that the cache can be rewound to."""
        if not self._recurrent:
            return length
        return max(at for at in (0, self.length, *self._kept) if at <= length)

    def keep_states(self) -> None:
        """Keep the recurrent states after the committed rows, so that the cache can be rewound to this
        length."""
        if self._recurrent:
            self._kept[self.length] = [layer.kept for layer in self._recurrent]
            self._kept = dict(sorted(self._kept.items())[-KEPT_STATES:])

    def recurrent_states(self) -> StatesByLength:
        """Return the recurrent layers' states after the committed rows, and the newest states that `keep_states`
        has kept, from which the newest answer can be written again. Returns {} without recurrent layers."""
        if not self._recurrent:
            return {}
        newest = dict(sorted(self._kept.items())[-1:])
        return newest | {self.length: [layer.kept for layer in self._recurrent]}

    def _restore_states(self, states: Sequence[RecurrentState]) -> None:
        for layer, state in zip(self._recurrent, states, strict=True):
            layer.restore_state(state)

    def committed(self) -> list[Tensor]:
        """Return each layer's keys and then its values [1, heads, L, size], as views of the committed rows."""
        buffers = [buffer for layer in self._rows for buffer in (layer.keys, layer.values)]
        return [buffer[:, :, : self.length] for buffer in buffers if buffer is not None]

    def restore(self, states: Sequence[Tensor], end: int, recurrent: StatesByLength | None = None) -> None:
        """Copy the rows before `end` from states that `committed` returned, and commit them.

        The caller has reserved room. The states `recurrent[end]` are restored, and earlier ones are kept."""
        if recurrent:
            self._restore_states(recurrent[end])
            self._kept |= {at: known for at, known in recurrent.items() if at < end}
        for layer, keys, values in zip(self._rows, states[::2], states[1::2], strict=True):
            layer.restore(keys, values, end)
        self._set_length(end)

    def _set_length(self, length: int) -> None:
        self.length = length
        for layer in self._rows:
            layer.length = length


def block_cache(config: PreTrainedConfig) -> BlockCache:
    """Make an empty cache for a model of this config. If any layer is of an unknown kind, no layer gets a
    recurrent state."""
    kinds = layer_kinds(config.get_text_config(decoder=True))
    return BlockCache(kinds=kinds if {"recurrent", "hybrid"}.intersection(kinds) else [])
