"""A copy of a model with some modules replaced, over the same weights.

    model                       copy
      embedding  <------------    embedding               the same module: nothing in it is replaced
      layer 0                     layer 0                 another module, because it holds a replaced one
        q_proj   <------------      q_proj                the same
        norm (RMSNorm)              norm (FusedNorm)      another, over the same weight

A module that holds no replaced module is shared, with its state: a rotary table that changes with the text's length
changes for both models.
"""

from collections.abc import Mapping
from copy import deepcopy
from itertools import chain
from typing import TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def copy_with(model: M, replaced: Mapping[nn.Module, nn.Module]) -> M:
    """Copy the model with these modules replaced; every other weight, buffer and config is shared."""
    shared = [module for module in model.modules() if not any(part in replaced for part in module.modules())]
    kept: dict[int, object] = {
        id(each): each for each in chain(model.parameters(), model.buffers(), shared, _configs(model))
    }
    # deepcopy takes what it finds in its memo for the copy.
    return deepcopy(model, kept | {id(old): new for old, new in replaced.items()})


def _configs(model: nn.Module) -> list[object]:
    """The configs that modules read: a change there is for both models."""
    found = (getattr(module, "config", None) for module in model.modules())
    return [config for config in found if config is not None]
