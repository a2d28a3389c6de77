"""A state comes back as it was, whatever a model's layers call what they keep."""

from typing import Any

import pytest
import torch
from torch import Tensor

from app.engine.runner.sequential_runner import Snapshot, State


class Full:
    """Keys and values that grow."""

    is_sliding = False

    def __init__(self) -> None:
        self.keys = torch.arange(6.0).reshape(1, 1, 3, 2)
        self.values = -self.keys

    def feed(self) -> None:
        self.keys, self.values = (torch.cat([one, one[:, :, :1]], dim=2) for one in (self.keys, self.values))


class Sliding(Full):
    """Keys and values of which the oldest are dropped."""

    is_sliding = True

    def __init__(self) -> None:
        super().__init__()
        self.length = 3

    def feed(self) -> None:
        super().feed()
        self.keys, self.values, self.length = self.keys[:, :, 1:], self.values[:, :, 1:], self.length + 1


class Recurrent:
    """States that are overwritten in place, in dictionaries and lists."""

    def __init__(self) -> None:
        self.states: dict[int, Tensor | None] = {0: torch.ones(2), 1: None}
        self.old = [torch.zeros(2)]
        self.has_any = {0: False}
        self.settings = object()

    def feed(self) -> None:
        state = self.states[0]
        assert state is not None
        state += 1
        self.old[0] -= 1
        self.has_any[0] = True


class Layers:
    def __init__(self, *layers: Any) -> None:
        self.layers = list(layers)


def contents(state: State) -> list[str]:
    """All that a state holds, to be compared."""
    return [str(vars(layer)) for cache in state.values() for layer in getattr(cache, "layers", [])] or [
        str(state)
    ]


@pytest.mark.parametrize("kinds", ((Full,), (Sliding,), (Recurrent,), (Recurrent, Full, Sliding)))
def test_layers_hold_what_they_held(kinds: tuple[type[Any], ...]) -> None:
    layers = [kind() for kind in kinds]
    state: State = {"past_key_values": Layers(*layers)}
    before = contents(state)
    snapshot = Snapshot(state)
    for _ in range(2):
        for layer in layers:
            layer.feed()
    assert contents(state) != before
    restored = snapshot.restore()
    assert contents(restored) == before
    assert restored["past_key_values"] is state["past_key_values"], "the same objects, which a model may know"


def test_a_state_of_tensors_comes_back() -> None:
    state: State = {"state": [torch.zeros(2), torch.ones(2)]}
    before = contents(state)
    snapshot = Snapshot(state)
    state["state"][0] += 5
    assert contents(snapshot.restore()) == before


def test_keys_and_values_of_full_layers_are_not_copied() -> None:
    layer = Full()
    snapshot = Snapshot({"past_key_values": Layers(layer)})
    layer.feed()
    grown = layer.keys
    snapshot.restore()
    assert layer.keys.data_ptr() == grown.data_ptr()
    assert layer.keys.shape[2] == 3
