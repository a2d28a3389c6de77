"""A second set of modules over the same weights, for passes that want other products than the first.

    model                       twin
      embedding  <------------    embedding               the same module: nothing in it is replaced
      layer 0                     layer 0                 another module, because it holds Linears
        norm     <------------      norm                  the same
        q_proj (Linear)             q_proj (FixedLinear)  another, over the same weight

So a pass chooses between them once, by which model it calls, and no layer asks which pass it is in. What holds no
Linear is shared, with whatever state it has: a rotary table that changes with the text's length changes for both.
"""

from collections.abc import Callable
from copy import deepcopy
from itertools import chain

from torch import nn
from transformers import PreTrainedModel

Replace = Callable[[nn.Linear], nn.Module]


def twin_of(model: PreTrainedModel, replace: Replace) -> PreTrainedModel:
    """The model with each Linear replaced. Classes derived from Linear, and quantised ones, are left alone."""
    shared = [module for module in model.modules() if not any(map(_is_linear, module.modules()))]
    kept = chain(model.parameters(), model.buffers(), shared, _configs(model))
    twin: PreTrainedModel = deepcopy(model, {id(each): each for each in kept})
    for parent in list(twin.modules()):
        for name, child in list(parent.named_children()):
            if _is_linear(child):
                setattr(parent, name, replace(parent.get_submodule(name)))  # type: ignore[arg-type]
    return twin


def num_linears(model: PreTrainedModel) -> int:
    """How many layers a twin would replace."""
    return sum(map(_is_linear, model.modules()))


def _configs(model: PreTrainedModel) -> list[object]:
    """What modules read their settings from: a change there is for both."""
    found = (getattr(module, "config", None) for module in model.modules())
    return [config for config in found if config is not None]


def _is_linear(module: nn.Module) -> bool:
    return type(module) is nn.Linear
