"""The parts of a load report progress that moves, and end where their listener ends them."""

from itertools import count

import pytest
import torch
from torch import nn

from app.engine.loading.parts import counting_passes
from app.errors import LoadCancelled


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))


def test_the_passes_of_a_trial_move_its_progress() -> None:
    trial, shares, seconds = model(), list[float](), count()
    with counting_passes(trial, lambda done, total: shares.append(done / total), lambda: next(seconds)):
        for _ in range(5):
            trial(torch.zeros(1, 2))
    assert shares == sorted(set(shares)) and 0 < shares[0] < shares[-1] < 1
    told = len(shares)
    trial(torch.zeros(1, 2))
    assert len(shares) == told, "only in the block"


def test_progress_is_told_from_time_to_time() -> None:
    trial, told = model(), list[int]()
    with counting_passes(trial, lambda done, _total: told.append(done), lambda: 0.0):
        trial(torch.zeros(1, 2))
    assert told == []


def test_a_trial_ends_in_the_layer_in_which_it_is_cancelled() -> None:
    def cancel(_done: int, _total: int) -> None:
        raise LoadCancelled("Cancelled.")

    trial, seconds = model(), count()
    with pytest.raises(LoadCancelled), counting_passes(trial, cancel, lambda: next(seconds)):
        trial(torch.zeros(1, 2))
    trial(torch.zeros(1, 2))
