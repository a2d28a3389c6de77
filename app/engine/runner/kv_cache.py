"""The KV cache: the only module that touches transformers' cache classes.

Each layer keeps one buffer for keys and one for values, allocated ahead and grown in chunks. A step writes
its block after the committed rows; a commit moves the accepted rows down and forgets the rest:

    committed  block                 after commit([0, 2])
    A B C    | d e f g               A B C d f
    length=3   rows 0..3             length=5

Nothing counts until it is committed, so a step that was stopped or failed leaves the cache as it was.
A recorded step cannot know where the prefix ends: it writes to slots that it reads from the device (`writing_at`)
and is given the whole buffers. Another `version` says that a buffer was made anew: recordings of the old are void.
Sliding-window layers keep every row, too: their window is applied by the attention, by position.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

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
)
from transformers.modeling_outputs import CausalLMOutputWithPast

from app.engine.block.block import CacheSlots
from app.engine.machine.hardware import uploaded

CACHE_NAME = "cache" if hasattr(CausalLMOutputWithPast, "cache") else "past_key_values"
"""What models and their layers call their cache: `cache` since transformers 5.24."""

CHUNK = 512
"""Rows by which a full buffer grows."""

AHEAD = 2048
"""Rows that are reserved after a prompt: a buffer that grows is copied, and recorded steps are lost with it."""

Allocate = Callable[[Tensor, int], Tensor]
"""States [1, heads, rows, size] and a capacity -> an empty buffer [1, heads, capacity, size] like them."""


def empty_rows(states: Tensor, capacity: int) -> Tensor:
    """Allocate a buffer without initialising it."""
    return states.new_empty((*states.shape[:2], capacity, states.shape[3]))


@dataclass(slots=True)
class _Room:
    """What all layers share: the allocator, the least rows of a buffer, how often any buffer was made anew."""

    allocate: Allocate
    rows: int = 0
    version: int = 0


def layer_windows(config: PreTrainedConfig) -> list[int]:
    """Each layer's sliding window, 0 for a full layer; [] when some layer keeps more than keys and values."""
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        layers = DynamicCache(config=config).layers
        plain = all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
        return [getattr(layer, "sliding_window", 0) for layer in layers] if plain else []
    if not set(kinds) <= {"full_attention", "sliding_attention"}:
        return []
    return [config.sliding_window if kind == "sliding_attention" else 0 for kind in kinds]


def stock_cache(config: PreTrainedConfig) -> Cache:
    """transformers' own cache for a model, whatever its layers keep."""
    return DynamicCache(config=config)


class _Layer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's keys and values [1, heads, capacity, size], of which the first `length` rows are committed."""

    is_sliding = False
    is_croppable = True

    def __init__(self, room: _Room) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._room = room
        self.length = 0
        self.slots: Tensor | None = None  # where rows go, if not after the committed ones
        self.device = torch.device("cpu")

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = empty_rows(key_states, 0)
        self.values = empty_rows(value_states, 0)
        self.device = key_states.device
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write a block after the committed rows; returns committed and block rows as views."""
        slots = self.slots_for(key_states, value_states)
        slots.write(key_states, value_states)
        return slots.up_to(key_states.shape[2])

    def slots_for(self, key_states: Tensor, value_states: Tensor) -> CacheSlots:
        """Find where states like these are to be written."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        rows = 0 if self.slots is not None else self.length + key_states.shape[2]
        return CacheSlots(*self.buffers(rows), self.length, self.slots)

    def keep(self, rows: Tensor, end: int) -> None:
        """Move these block rows (absolute, ascending) down after the committed ones, up to row `end`."""
        # index_select copies before anything is overwritten: source and target rows may overlap.
        for buffer in self.buffers(end):
            buffer[:, :, self.length : end] = buffer.index_select(2, rows)

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy rows from these slots to those."""
        for buffer in self.buffers(0):
            buffer.index_copy_(2, targets, buffer.index_select(2, sources))

    def restore(self, keys: Tensor, values: Tensor, end: int) -> None:
        """Copy these states' rows after the committed ones, up to row `end`."""
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
        """Rows that both buffers have room for: one of them may have failed to grow."""
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
        """Return both buffers, grown so that they have room for so many rows."""
        assert self.keys is not None and self.values is not None
        if rows > self.capacity:
            self._resize(self.keys, self.values, _whole_chunks(max(rows, self._room.rows)))
        return self.keys, self.values

    def _resize(self, keys: Tensor, values: Tensor, capacity: int) -> None:
        """Allocate both buffers anew. If nothing is committed, the old ones are freed first."""
        self._room.version += 1
        if not self.length:
            self.keys, self.values = keys, values = empty_rows(keys, 0), empty_rows(values, 0)
        self.keys = self._copied(keys, capacity)
        self.values = self._copied(values, capacity)

    def _copied(self, buffer: Tensor, capacity: int) -> Tensor:
        copied = self._room.allocate(buffer, capacity)
        copied[:, :, : self.length] = buffer[:, :, : self.length]
        return copied


def are_in_place(rows: Sequence[int]) -> bool:
    """Whether a commit of these rows has nothing to move."""
    return all(row == place for place, row in enumerate(rows))


def _whole_chunks(rows: int) -> int:
    return -(-rows // CHUNK) * CHUNK


class BlockCache(Cache):
    """All layers' keys and values, with one committed length."""

    def __init__(self, allocate: Allocate = empty_rows) -> None:
        self._room = _Room(allocate)
        # transformers calls it whenever a layer is first written to.
        super().__init__(layer_class_to_replicate=partial(_Layer, self._room))  # type: ignore[arg-type]
        self.length = 0
        self._known: list[_Layer] = []

    @property
    def _rows(self) -> list[_Layer]:
        """The layers with their own type; transformers adds one whenever another is first written to."""
        if len(self._known) != len(self.layers):
            self._known = [layer for layer in self.layers if isinstance(layer, _Layer)]
        return self._known

    def slots_for(self, layer: int, key_states: Tensor, value_states: Tensor) -> CacheSlots:
        """Find where a layer is to write states like these, for kernels that write them themselves."""
        while len(self.layers) <= layer:
            self.layers.append(_Layer(self._room))
        return self._rows[layer].slots_for(key_states, value_states)

    def commit(self, rows: Sequence[int]) -> None:
        """Keep these rows of the newest block, in this order, and forget its other rows."""
        end = self.length + len(rows)
        # Rows 0, 1, 2, ... are in place already: the usual case of plain decoding and prefill.
        if not are_in_place(rows):
            moved = np.array(rows, dtype=np.int64) + self.length
            on: dict[torch.device, Tensor] = {
                device: uploaded(moved, device) for device in {layer.device for layer in self._rows}
            }
            for layer in self._rows:
                layer.keep(on[layer.device], end)
        self._set_length(end)

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy rows from slots [n] to others in every layer, without the host."""
        for layer in self._rows:
            layer.move(sources, targets)

    def advance(self, count: int) -> None:
        """Commit rows that lie after the committed ones already."""
        self._set_length(self.length + count)

    @property
    def capacity(self) -> int:
        """Rows that there is room for in every layer; 0 before the first pass."""
        return min((layer.capacity for layer in self._rows), default=0)

    @property
    def version(self) -> int:
        """Changes whenever a buffer is allocated anew."""
        return self._room.version

    def reserve(self, rows: int) -> None:
        """Make room for so many rows in every layer, now or when it is first written to.

        If that fails, no layer has more room than before."""
        before, self._room.rows = self.capacity, rows
        try:
            for layer in self._rows:
                layer.buffers(rows)
        except Exception:
            self._room.rows = before
            for layer in self._rows:
                layer.give_back(before)
            raise

    def reserve_ahead(self, rows: int, most: int) -> None:
        """Make room for so many rows and for AHEAD more, but not for more than `most` if these are enough."""
        self.reserve(max(rows, min(rows + AHEAD, most)))

    def give_back(self, rows: int) -> None:
        """Shrink the buffers to so many rows, at least the committed ones."""
        capacity = self._room.rows = _whole_chunks(max(rows, self.length))
        for layer in self._rows:
            layer.give_back(capacity)

    @contextmanager
    def writing_at(self, slots: Tensor) -> Iterator[None]:
        """Have rows written to these slots [T] of buffers that are large enough, so that nothing grows."""
        for layer in self._rows:
            layer.slots = slots
        try:
            yield
        finally:
            for layer in self._rows:
                layer.slots = None

    def rewind(self, length: int) -> None:
        """Forget all rows from `length` on; raises ValueError when there are not that many."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind a cache of {self.length} rows to {length}")
        self._set_length(length)

    def committed(self) -> list[Tensor]:
        """Each layer's keys and then its values [1, heads, L, size], as views of the committed rows."""
        buffers = [buffer for layer in self._rows for buffer in (layer.keys, layer.values)]
        return [buffer[:, :, : self.length] for buffer in buffers if buffer is not None]

    def restore(self, states: Sequence[Tensor], end: int) -> None:
        """Commit rows up to `end` of what `committed` gave; there is room for them."""
        for layer, keys, values in zip(self._rows, states[::2], states[1::2], strict=True):
            layer.restore(keys, values, end)
        self._set_length(end)

    def _set_length(self, length: int) -> None:
        self.length = length
        for layer in self._rows:
            layer.length = length
