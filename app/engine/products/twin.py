"""A second set of modules over the same weights, for passes that want other products than the first.

    model                       twin
      embedding  <------------    embedding               the same module: nothing in it is replaced
      layer 0                     layer 0                 another module, because it holds Linears
        norm     <------------      norm                  the same
        q_proj (Linear)             q_proj (FixedLinear)  another, over the same weight

So a pass chooses between them once, by which model it calls, and no layer asks which pass it is in. What holds no
Linear is shared, with whatever state it has: a rotary table that changes with the text's length changes for both.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import chain
from typing import TypeVar

from torch import nn
from transformers import PreTrainedModel

M = TypeVar("M", bound=nn.Module)

Replace = Callable[[nn.Linear], nn.Module]


def twin_of(model: PreTrainedModel, replace: Replace) -> PreTrainedModel:
    """The model with each Linear replaced. Classes derived from Linear, and quantised ones, are left alone."""
    linears = [module for module in model.modules() if type(module) is nn.Linear]
    return copy_with(model, {linear: replace(linear) for linear in linears})


def copy_with(model: M, replaced: Mapping[nn.Module, nn.Module]) -> M:
    """The model with other modules in the place of some; those that hold none of them are the same ones."""
    shared = [module for module in model.modules() if not any(part in replaced for part in module.modules())]
    kept: dict[int, object] = {
        id(each): each for each in chain(model.parameters(), model.buffers(), shared, _configs(model))
    }
    # deepcopy takes what it finds here for the copy.
    return deepcopy(model, kept | {id(old): new for old, new in replaced.items()})


def num_linears(model: PreTrainedModel) -> int:
    """How many layers a twin would replace."""
    return sum(type(module) is nn.Linear for module in model.modules())


def _configs(model: nn.Module) -> list[object]:
    """What modules read their settings from: a change there is for both."""
    found = (getattr(module, "config", None) for module in model.modules())
    return [config for config in found if config is not None]
