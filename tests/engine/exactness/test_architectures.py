"""The zoo is worth testing on: its models say varied things, and the same ones every time."""

import pytest
import torch

from tests.engine.architectures import BRANCHING, IN_DEPTH, OWN_ATTENTION, Architecture
from tests.engine.recurrent_architectures import RECURRENT
from tests.engine.replies import longest_repetition, numbers, transformers_says
from tests.tiers import named, some

PROMPT = numbers(30)


@pytest.mark.parametrize("architecture", some(named((*BRANCHING, *OWN_ATTENTION, *RECURRENT)), *IN_DEPTH))
def test_greedy_text_is_varied(architecture: Architecture) -> None:
    said = transformers_says(architecture, PROMPT, limit=64)
    assert len(set(said)) >= 12
    assert longest_repetition(said) <= 8


def test_a_model_has_the_same_weights_each_time_and_leaves_the_dice_alone() -> None:
    before = torch.random.get_rng_state()
    first, second = (BRANCHING[0].make().state_dict() for _ in range(2))
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())
    assert torch.equal(torch.random.get_rng_state(), before)
