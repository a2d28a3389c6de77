"""What the tool writes is a module that says the same weights again, and a fit stays near where it began."""

import pytest
import torch

from app.engine.lookahead.priors import BASE, FOLLOWER_WEIGHTS, SUCCESSOR_WEIGHTS
from tools.acceptance_priors import fit, module, no_weights, weights_in_use

CELL = 30 * no_weights().seen.numel() + 7


def test_the_weights_in_use_are_written_as_they_are() -> None:
    written: dict[str, object] = {}
    exec(module(weights_in_use()), written)
    assert written["BASE"] == BASE
    assert written["SUCCESSOR_WEIGHTS"] == SUCCESSOR_WEIGHTS
    assert written["FOLLOWER_WEIGHTS"] == FOLLOWER_WEIGHTS


def test_a_fit_explains_what_was_observed() -> None:
    fitted = fit([[(CELL, True)] * 90 + [(CELL, False)] * 10], no_weights(), 0.01)
    chance = torch.sigmoid(fitted.base + fitted.said[30] + fitted.seen[7]).item()
    assert chance == pytest.approx(0.9, abs=0.01)
    assert fitted.said.count_nonzero() == 1, "of other codes nothing was seen"


def test_a_strong_ridge_keeps_the_weights_where_they_were() -> None:
    before = weights_in_use()
    fitted = fit([[(CELL, True)] * 5 + [(CELL, False)] * 5], before, 1e6)
    assert (fitted.said - before.said).abs().max() < 1e-3
    assert (fitted.seen - before.seen).abs().max() < 1e-3
