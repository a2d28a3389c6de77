"""Keeps a model's hidden states for every committed row, because heads that guess further tokens read them.

The states are stored in the KV cache as keys [1, 1, rows, width] of additional layers, whose values have width 0.
So they are committed, rewound and kept with prefixes like the keys of all other layers, and a recorded step (a CUDA
graph) writes them to its slots, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from app.engine.runner.kv_cache import CACHE_NAME, BlockCache


class HiddenStates:
    """The states of a cache's committed rows; the states of several layers are concatenated."""

    def __init__(self, cache: BlockCache, *layers: int) -> None:
        self._cache, self._layers = cache, layers

    def __len__(self) -> int:
        return self._cache.length

    def rows(self, begin: int, end: int) -> Tensor:
        """Return the states of these committed rows [1, n, layers * width]."""
        found: list[Any] = [self._cache.layers[layer] for layer in self._layers]
        return torch.cat([layer.keys[:, 0, begin:end] for layer in found], dim=-1)

    def keys_and_values(self, layer: int, begin: int, end: int) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values of these committed rows [1, heads, n, size]."""
        found: Any = self._cache.layers[layer]
        return found.keys[:, :, begin:end], found.values[:, :, begin:end]


@dataclass(frozen=True, slots=True)
class WrittenStates:
    """The layers of the cache to which each pass of a model writes hidden states, until `end` is called."""

    layers: tuple[int, ...]
    handles: tuple[RemovableHandle, ...]

    def of(self, cache: BlockCache) -> HiddenStates:
        """Return the states of the rows that are committed in this cache of the model."""
        return HiddenStates(cache, *self.layers)

    def end(self) -> None:
        """Remove the hooks, so that passes no longer write states."""
        for handle in self.handles:
            handle.remove()


def write_states(cache: BlockCache, layer: int, states: Tensor) -> None:
    """Write a block's states [1, T, width] after the committed rows."""
    keys = states[:, None]
    values = keys[..., :0]
    cache.slots_for(layer, keys, values).write(keys, values)


def write_last_states(model: PreTrainedModel) -> WrittenStates:
    """Make every forward pass also store the final hidden states (the LM head's input)."""
    return _written_by(model, [model.get_decoder()])  # type: ignore[no-untyped-call]


def write_layer_states(model: PreTrainedModel, layers: Sequence[int]) -> WrittenStates:
    """Make every forward pass also store the hidden states after these layers (1 is the first layer).

    Raises ValueError for layers that the model does not have."""
    decoder: nn.Module = model.get_decoder()  # type: ignore[no-untyped-call]
    lists = [list(child) for child in decoder.children() if isinstance(child, nn.ModuleList)]
    # The list of layers is found by its length, because its name differs between models.
    inside = next((found for found in lists if len(found) == number_of_layers(model)), [])
    if not all(0 < number <= len(inside) for number in layers):
        raise ValueError(f"it reads the states after layer {max(layers)}, but there are {len(inside)} layers")
    return _written_by(model, [inside[number - 1] for number in layers])


def number_of_layers(model: PreTrainedModel) -> int:
    return int(model.config.get_text_config(decoder=True).num_hidden_layers)


def cached_layers(model: PreTrainedModel) -> int:
    """Return how many layers have their own cache layer; in some models the last layers reuse earlier caches."""
    shared = getattr(model.config.get_text_config(decoder=True), "num_kv_shared_layers", 0)
    return number_of_layers(model) - (shared or 0)


def _written_by(model: PreTrainedModel, modules: Sequence[nn.Module]) -> WrittenStates:
    """Make passes with a BlockCache store these modules' outputs, in cache layers after the model's own."""
    places = dict(enumerate(modules, start=cached_layers(model)))
    handles = (
        module.register_forward_hook(partial(_write, layer), with_kwargs=True)
        for layer, module in places.items()
    )
    return WrittenStates(tuple(places), tuple(handles))


def _write(layer: int, _module: nn.Module, _inputs: object, named: dict[str, Any], output: Any) -> None:
    cache = named.get(CACHE_NAME)
    if isinstance(cache, BlockCache):
        write_states(cache, layer, output if isinstance(output, Tensor) else output[0])
