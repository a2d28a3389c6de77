"""Whether a model's layers can have our kernels on this machine, and the model that has them.

They are for cards from Ampere on: there most of a layer's kernels take longer to begin than to do what they do. The
model itself stays as it is: whoever holds it runs it as transformers wrote it, over the same weights.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention import Attend
from app.engine.attention.selector import AMPERE, DeviceCapabilities
from app.engine.block import chain_block
from app.engine.compatibility import is_close
from app.engine.fused_layers.replacements import Replaced, find_attentions, find_layers, find_mlps, find_norms
from app.engine.fused_layers.shared_weight_copy import copy_with
from app.engine.fused_layers.signature import LayerKernels
from app.engine.kv_cache import BlockCache
from app.engine.memory import is_out_of_memory
from app.engine.steps import run_block
from app.errors import first_line

log = logging.getLogger(__name__)

_PREFIX, _BLOCK = (3, 1, 4, 1, 5), (9, 2, 6)
"""Tokens of the whole model's trial: read, committed, and then answered for."""

Find = Callable[[Replaced], Replaced]
"""What can be replaced, given what is replaced already."""


@dataclass(frozen=True, slots=True)
class FusedModel:
    """A model whose layers use our kernels where they can. `note` says how many, or why none; "" on a CPU."""

    model: PreTrainedModel
    note: str = ""


def fuse(model: PreTrainedModel, machine: DeviceCapabilities, attend: Attend) -> FusedModel:
    """The model with fused layers, or as it is where they cannot be had."""
    if not can_have(machine):
        return FusedModel(model)
    try:
        from app.engine.fused_layers.launching import on_device

        return fuse_by(on_device(machine.device), model, attend)
    except Exception as error:  # a compiler's, a driver's, a broken package's: each has types of its own
        if is_out_of_memory(error):
            raise
        log.info("layers keep torch's kernels, for ours failed their trial: %s", error)
        return FusedModel(
            model, f"Layers keep torch's kernels: the trial of ours failed ({first_line(error)[:200]})."
        )


def can_have(machine: DeviceCapabilities) -> bool:
    """Whether the machine is of the kind that our kernels are for."""
    return machine.device.type == "cuda" and machine.capability >= AMPERE and machine.has_triton


def fuse_by(kernels: LayerKernels, model: PreTrainedModel, attend: Attend) -> FusedModel:
    """Replace every module whose trial succeeds; raises ArithmeticError if the whole model then differs."""
    stages: dict[str, Find] = {
        "norms": lambda _found: find_norms(model, kernels),
        "gated activations": lambda _found: find_mlps(model, kernels),
        "rotary embeddings": lambda found: find_attentions(model, found, kernels, attend),
        "residual sums": lambda found: find_layers(model, found, attend),
    }
    found: Replaced = {}
    counts: dict[str, int] = {}
    for name, find in stages.items():
        new = find(found)
        found |= new
        counts[name] = len(new)
    summary = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    if not summary:
        return FusedModel(model)
    whole = copy_with(model, found)
    if not is_close(_logits(whole, attend), _logits(model, attend)):
        raise ArithmeticError("together they say something else")
    return FusedModel(whole, f"One kernel of our own each: {summary}.")


def _logits(model: PreTrainedModel, attend: Attend) -> Tensor:
    """Logits of a few tokens behind a short prefix."""
    cache = BlockCache()
    run_block(model, cache, chain_block(_PREFIX, 0, wanted=()), attend)
    cache.commit(range(len(_PREFIX)))
    logits = run_block(model, cache, chain_block(_BLOCK, len(_PREFIX), wanted=(0, 1, 2)), attend)[0]
    return logits if torch.isfinite(logits).all() else torch.full_like(logits, torch.nan)
