"""A chain that was not accepted leaves no trace, and what was accepted of it is fed with the next one."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from app.engine.block.block import chain_block, siblings_block
from app.engine.machine.hardware import is_close
from app.engine.runner.sequential_runner import LONGEST_CHAIN, SequentialRunner, Snapshot, State
from app.models_registry.files.config import parse_config
from tests.engine.recurrent_architectures import CHAINED, RECURRENT
from tests.engine.replies import Zoo, numbers


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


PROMPT = numbers(9)
TEXT = numbers(LONGEST_CHAIN, seed=1)


@pytest.fixture
def runner(zoo: Zoo) -> Iterator[SequentialRunner]:
    """A hybrid's whose recurrence does not branch here, which has read the prompt."""
    found = zoo.runner(next(one for one in CHAINED if one.name == "qwen4-exp"))
    assert isinstance(found, SequentialRunner)
    read(found, PROMPT)
    yield found
    found.forget()


def read(runner: SequentialRunner, ids: Sequence[int]) -> list[int]:
    """How far the prompt was read, report by report."""
    return [event.done for event in runner.prefill(ids)]


def fed(runner: SequentialRunner, tokens: Sequence[int], position: int) -> Tensor:
    return runner.forward(chain_block(tokens, position, tuple(range(len(tokens)))))


def says(runner: SequentialRunner, *texts: Sequence[int]) -> Tensor:
    """Logits behind the prompt and all of these, from one pass."""
    text = [token for part in (PROMPT, *texts) for token in part]
    logits: Tensor = runner.model(input_ids=torch.tensor([text]), use_cache=False).logits[0, len(PROMPT) :]
    return logits


def test_rows_that_were_accepted_are_pending_and_fed_with_the_next_chain(runner: SequentialRunner) -> None:
    fed(runner, TEXT[:4], 9)
    runner.commit((0, 1))
    assert (runner.pending, runner.max_rows) == (2, LONGEST_CHAIN - 2)
    logits = fed(runner, (7, 8, 9), 11)
    assert is_close(logits, says(runner, TEXT[:2], (7, 8, 9))[2:])
    runner.commit((0,))
    assert runner.pending == 3
    assert is_close(fed(runner, (5, 6), 12), says(runner, TEXT[:2], (7, 5, 6))[3:])
    runner.commit((0, 1))
    assert (runner.pending, runner.max_rows) == (0, LONGEST_CHAIN), "all of it was right"


class Lookups(TorchDispatchMode):
    """Counts the tensors that are indexed by others: an index made from a list has a card waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += str(func).startswith("aten.index.")
        return func(*args, **(kwargs or {}))


def test_nothing_is_looked_up_behind_a_chain_of_which_all_rows_are_read(runner: SequentialRunner) -> None:
    with Lookups() as by_the_model:
        runner.feed(TEXT[:4], 9, 4)
    read(runner, PROMPT)
    with Lookups() as lookups:
        logits = fed(runner, TEXT[:4], 9)
    assert lookups.count == by_the_model.count
    some = runner.forward(chain_block(TEXT[:4], 9, (3, 1)))
    assert torch.equal(some, logits[[3, 1]])


def test_a_block_that_nobody_committed_is_forgotten(runner: SequentialRunner) -> None:
    fed(runner, TEXT[:6], 9)
    assert is_close(fed(runner, (7, 8), 9), says(runner, (7, 8)))


def test_a_row_alone_is_committed_with_what_is_pending(runner: SequentialRunner) -> None:
    fed(runner, TEXT[:4], 9)
    runner.commit((0, 1, 2))
    assert is_close(fed(runner, (7,), 12), says(runner, TEXT[:3], (7,))[3:])
    runner.commit((0,))
    assert runner.pending == 0
    assert is_close(fed(runner, (8, 9), 13), says(runner, TEXT[:3], (7, 8, 9))[4:])


def test_pending_rows_leave_room_for_one_row_at_least(runner: SequentialRunner) -> None:
    position = 9
    while runner.max_rows > 1:
        fed(runner, TEXT[: runner.max_rows], position)
        count = min(9, runner.max_rows - 1)
        runner.commit(range(count))
        position += count
    assert runner.pending == LONGEST_CHAIN - 1
    fed(runner, (7,), position)
    assert (runner.pending, runner.max_rows) == (0, LONGEST_CHAIN)


def test_only_the_wanted_rows_are_answered(runner: SequentialRunner) -> None:
    logits = runner.forward(chain_block(TEXT[:4], 9, (3, 1)))
    assert is_close(logits, says(runner, TEXT[:4])[[3, 1]])


@pytest.mark.parametrize(
    "block", (siblings_block((1, 2), 9), chain_block(numbers(LONGEST_CHAIN + 1), 9, (0,)))
)
def test_a_tree_or_too_long_a_chain_is_refused(runner: SequentialRunner, block: object) -> None:
    with pytest.raises(ValueError, match="takes a chain of at most 32 rows"):
        runner.forward(block)  # type: ignore[arg-type]


def test_texts_apart_from_each_other_are_a_batch(runner: SequentialRunner) -> None:
    logits = runner.forward_siblings((7, 8))
    assert is_close(logits, torch.cat([says(runner, (7,)), says(runner, (8,))]))
    assert is_close(fed(runner, (7, 8), 9), says(runner, (7, 8))), "nothing was committed"


def test_a_prompt_goes_on_from_the_newest_state_or_from_the_one_behind_the_prompt(
    runner: SequentialRunner,
) -> None:
    fed(runner, TEXT[:4], 9)
    runner.commit((0, 1, 2, 3))
    longer = (*PROMPT, *TEXT[:4], 7)
    assert (read(runner, longer), runner.reused) == ([14], 13)
    assert (read(runner, longer), runner.reused) == ([14], 14), "nothing is read"
    assert (read(runner, (*PROMPT, 3, 4)), runner.reused) == ([11], 0), "another text"


def test_a_prompt_stopped_half_read_is_read_on(runner: SequentialRunner) -> None:
    long = numbers(600, seed=3)
    reading = runner.prefill(long)
    assert next(reading).done == 512
    reading.close()
    assert (read(runner, long), runner.reused) == ([600], 512)
    assert read(runner, PROMPT) == [9]
    assert runner.reused == 0


@pytest.mark.parametrize("name", ["rwkv", "xlstm", "minimax", "recurrent-gemma"])
def test_a_state_whose_sizes_have_no_keys_in_the_config_is_what_the_estimate_counts(
    zoo: Zoo, name: str
) -> None:
    runner = zoo.runner(next(one for one in RECURRENT if one.name == name))
    for _ in runner.prefill(PROMPT):
        pass
    holders = [*runner._state.values(), *runner.model.modules()]
    kept = [
        vars(holder).get(attribute)
        for holder in holders
        if not isinstance(holder, list)
        for attribute in ("rnn_state", "linear_cache", "recurrent_states", "conv1d_state")
    ]
    shape = parse_config(json.dumps(runner.model.config.to_dict()).encode(), name)
    assert sum(map(numbers_in, (*kept, runner._state.get("state")))) == shape.state > 0


def numbers_in(value: Any) -> int:
    """Count the numbers in tensors, also inside lists and dictionaries."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return value.numel() if isinstance(value, Tensor) else sum(map(numbers_in, inside))
