"""A copy of what a model keeps of a text, so that tokens that it was fed can be taken back.

    recurrent and convolution states    overwritten by every pass: copied
    keys and values of full layers      only grow: their number of rows says it all, and to cut them costs nothing
    keys and values of sliding layers   made anew by every pass: the old ones are kept

What a layer calls its states does not matter: all its attributes are kept. Whether a model's state is such that
this takes a pass back is tried at load (`compatibility.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

State = dict[str, Any]
"""What a model returns to be handed to the next pass, by the argument's name: a cache, or a list of tensors."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """So many rows of keys or values."""

    count: int

    def of(self, grown: Tensor, more: int) -> Tensor:
        return grown[..., : self.count + more, :]


class Snapshot:
    """Of a state as it is now. It is good for one `restore`, of the same state after some passes."""

    def __init__(self, state: State) -> None:
        self._state = {name: _copied(value) for name, value in state.items()}
        self._attributes = [(vars(holder), _kept(holder)) for holder in _holders(state)]

    def restore(self, rows: int = 0) -> State:
        """The state as it was: caches and layers are the same objects, with what they held.

        Where `only_grows`, it may keep so many rows that it was fed since."""
        for attributes, kept in self._attributes:
            for name, value in kept.items():
                attributes[name] = value.of(attributes[name], rows) if isinstance(value, _Rows) else value
        return self._state

    @property
    def only_grows(self) -> bool:
        """Whether the state is keys and values of full layers, and nothing else."""
        return bool(self._attributes) and not any(
            _holds_tensors(value) for _, kept in self._attributes for value in kept.values()
        )


def _holders(state: State) -> Iterator[Any]:
    """Each cache of a state, and its layers."""
    for cache in state.values():
        if hasattr(cache, "__dict__") and not isinstance(cache, Tensor):
            yield cache
            yield from getattr(cache, "layers", ())


def _kept(holder: Any) -> dict[str, Any]:
    """What is to be kept of a cache or a layer."""
    is_full = not getattr(holder, "is_sliding", False)
    kept = {name: value for name, value in vars(holder).items() if name in ("keys", "values")}
    if is_full:
        kept = {name: _Rows(value.shape[-2]) if _has_rows(value) else value for name, value in kept.items()}
    return {name: _copied(value) for name, value in vars(holder).items() if name not in kept} | kept


def _holds_tensors(value: object) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, Tensor) or any(map(_holds_tensors, inside))


def _has_rows(value: object) -> bool:
    return isinstance(value, Tensor) and value.ndim > 1


def _copied(value: Any) -> Any:
    """Tensors are copied wherever they lie in lists and dictionaries; everything else is as good as its copy."""
    match value:
        case Tensor():
            return value.clone()
        case dict():
            return {name: _copied(one) for name, one in value.items()}
        case list() | tuple():
            return type(value)(map(_copied, value))
        case _:
            return value
