"""What trials share: captured calls, an attention function that records its inputs, and a tolerance."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine.attention import Attend, BlockView, LayerCache, Scoring
from app.engine.block.block import chain_block
from app.engine.runner.kv_cache import CACHE_NAME, BlockCache
from app.engine.runner.runner import run_block

ROUNDINGS = {4: 16, 2: 2}
"""By bytes of a number: units in the last place that a value may be off. Sums in float32 grow from many."""

NOISE = 1e-6
"""Of a row's largest value: what is off by less may be, for torch's tanh loses as much where a gate is shut."""

UNLIKE = 0.05
"""The share of half precision's values that may be off by more: beyond, it is rounded elsewhere."""

TEXT = (3, 1, 4, 1, 5, 9, 2)
"""Tokens of the pass that modules are met in."""


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """The arguments of a module in a real pass."""

    args: tuple[Any, ...]
    named: dict[str, Any]


class AttentionProbe:
    """An attention function that records its inputs and returns constant values."""

    def __init__(self) -> None:
        self.states: tuple[Tensor, ...] = ()
        self.scoring = Scoring(0.0)

    def __call__(self, query: Tensor, cache: LayerCache, view: BlockView, scoring: Scoring) -> Tensor:
        """Query [1, H, T, D] to [1, T, H, DV]."""
        del view
        self.states, self.scoring = (query, cache.keys, cache.values), scoring
        shape = (1, query.shape[2], query.shape[1], cache.values.shape[3])
        count = query.shape[2] * query.shape[1] * cache.values.shape[3]
        return torch.linspace(-1, 1, count, device=query.device).to(query.dtype).view(shape)


def mismatch_share(ours: Tensor, theirs: Tensor) -> float:
    """The share of values [..., size] that differ; infinite where too many do, or one by too much."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return inf
    expected = theirs.double().abs()
    noise = NOISE * expected.amax(-1, keepdim=True)
    error = (ours.double() - theirs.double()).abs()
    allowed = ROUNDINGS[theirs.element_size()] * torch.finfo(theirs.dtype).eps * expected
    if not bool((error <= allowed + noise).all()):
        return inf
    share = float((error > noise).double().mean())
    return share if share <= UNLIKE or theirs.element_size() == 4 else inf


@contextmanager
def capturing_inputs(module: nn.Module) -> Iterator[list[Tensor]]:
    """Record a module's inputs while this is open."""
    inputs: list[Tensor] = []
    hook = module.register_forward_pre_hook(lambda _module, args: inputs.append(args[0]))
    try:
        yield inputs
    finally:
        hook.remove()


def captured_calls(
    model: PreTrainedModel, modules: list[nn.Module], attend: Attend
) -> dict[nn.Module, ModuleCall]:
    """The arguments of each of these modules in a short pass."""
    calls: dict[nn.Module, ModuleCall] = {}

    def meet(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        calls[module] = ModuleCall(args, named)

    hooks = [module.register_forward_pre_hook(meet, with_kwargs=True) for module in modules]
    try:
        run_block(model, BlockCache(), chain_block(TEXT, 0, wanted=(0,)), attend)
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def probe_attention(module: nn.Module, call: ModuleCall) -> tuple[AttentionProbe, Tensor]:
    """The inputs that the module gives to attention, and the module's output."""
    attention = AttentionProbe()
    answer: Tensor = _called(module, call, attention)[0]
    return attention, answer


def layer_output(module: nn.Module, call: ModuleCall, attend: Attend | None = None) -> Tensor:
    """A layer's output, by this attention or by constant values."""
    answer: Tensor = _called(module, call, attend or AttentionProbe())
    return answer


def _called(module: nn.Module, call: ModuleCall, attend: Attend) -> Any:
    """The module called as in that pass, but with an empty cache and such attention."""
    block_view = call.named["block"]
    view = BlockView(block_view.block, 0, attend, block_view.device)
    return module(*call.args, **{**call.named, CACHE_NAME: BlockCache(), "block": view})
