"""What a model hands to its LM head, kept for every committed row: heads that guess further read it.

The states lie in the KV cache as one more layer, whose values have no width. So they follow commits, rewinds and
prefixes that were kept, and a recorded step writes them to its slots like all other layers:

    layer       0 .. n - 1              n
    keys        [1, heads, rows, size]  [1, 1, rows, width]
    values      [1, heads, rows, size]  [1, 1, rows, 0]
"""

from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from app.engine.kv_cache import BlockCache, layer_windows
from app.engine.runner import BlockRunner


class HiddenStates:
    """The states of a cache's committed rows."""

    def __init__(self, cache: BlockCache, layer: int) -> None:
        self._cache, self._layer = cache, layer

    def __len__(self) -> int:
        return self._cache.length

    def rows(self, begin: int, end: int) -> Tensor:
        """Those of these committed rows [1, n, width], as a view."""
        layer: Any = self._cache.layers[self._layer]
        states: Tensor = layer.keys[:, 0, begin:end]
        return states

    def write(self, states: Tensor) -> None:
        """Those of the block that is being computed [1, T, width]."""
        write_states(self._cache, self._layer, states)


def write_states(cache: BlockCache, layer: int, states: Tensor) -> None:
    """Put a block's states [1, T, width] behind the committed rows."""
    keys = states[:, None]
    values = keys[..., :0]
    cache.slots_for(layer, keys, values).write(keys, values)


def layer_of_states(model: PreTrainedModel) -> int:
    """Behind the layers of the model itself."""
    return len(layer_windows(model.config.get_text_config(decoder=True)))


def hidden_states_of(runner: BlockRunner) -> HiddenStates:
    """Those of what a runner has committed, if the passes of its model write them."""
    return HiddenStates(runner.cache, layer_of_states(runner.model))


def write_hidden_states(model: PreTrainedModel) -> RemovableHandle:
    """Have each pass of this model write what is behind its final norm to its cache, until that is removed."""
    layer = layer_of_states(model)

    def write(_decoder: nn.Module, _inputs: object, named: dict[str, Any], output: Any) -> None:
        cache = named.get("past_key_values")
        if isinstance(cache, BlockCache):
            write_states(cache, layer, output.last_hidden_state)

    decoder: nn.Module = model.get_decoder()  # type: ignore[no-untyped-call]
    return decoder.register_forward_hook(write, with_kwargs=True)
