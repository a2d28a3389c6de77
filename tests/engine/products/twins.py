"""Runners whose steady passes have other products, on any device: the app makes them on cards alone."""

from collections.abc import Callable

import torch
from torch import nn

from app.engine.loading import LoadedModel
from app.engine.products.tiles import Card
from app.engine.products.twin import twin_of
from app.engine.rotary import rotary_of
from app.engine.runner import BlockRunner
from app.engine.step_times import ProductName
from app.engine.steps import EagerSteps, Steps
from tests.engine.attention.cases import DEVICE

MAJOR = torch.cuda.get_device_capability(DEVICE)[0] if DEVICE.type == "cuda" else 9
SMALL = Card(MAJOR, 4, 96 << 10)
"""A card that cuts the products of small models in parts."""


def with_twin(loaded: LoadedModel, replace: Callable[[nn.Linear], nn.Module]) -> BlockRunner:
    """The loaded model's runner, with such a twin besides."""
    runner = loaded.runner
    assert isinstance(runner, BlockRunner)
    rotary = rotary_of(runner.model.config.get_text_config(decoder=True), runner.context)
    attention = runner._attention
    twin = EagerSteps(twin_of(runner.model, replace), attention)
    ways: dict[ProductName, Steps] = {"torch": EagerSteps(runner.model, attention), "ours": twin}
    return BlockRunner(runner.model, runner.context, rotary, attention, ways)


def with_ours(loaded: LoadedModel, card: Card = SMALL) -> BlockRunner:
    """The loaded model's runner, with our products besides."""
    from app.engine.products.fixed import FixedLinear, on_device

    product = on_device(card, loaded.runner.model.device)  # type: ignore[attr-defined]
    return with_twin(loaded, lambda linear: FixedLinear(linear, product))
