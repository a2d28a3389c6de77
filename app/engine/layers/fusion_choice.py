"""Decides whether a model's layers can use our kernels on this machine, and makes the model that uses them.

Most of a layer's small kernels take longer to start than to run, so one kernel for several operations is faster."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import torch
from torch import nn
from transformers import PreTrainedModel

from app.engine.attention import Attend
from app.engine.attention.backend_choice import AMPERE, DeviceCapabilities
from app.engine.layers.cpu_layers import CpuKernels, NativeDecoder, NativeLayer, Workspace
from app.engine.layers.fused_modules import LayerKernels
from app.engine.layers.model_trial import ROWS, block_logits, compare_with_torch, trial_blocks
from app.engine.layers.module_replacement import (
    Calls,
    Replaced,
    captured_calls,
    copy_with,
    find_attentions,
    find_layers,
    find_mlps,
    find_norms,
    find_whole_decoder,
    find_whole_layers,
    join_sums,
)
from app.engine.layers.products import join_products
from app.engine.machine.device_faults import refused_because
from app.engine.machine.kernel_timing import Timer, gpu_seconds, slowness
from app.values.display_text import counted

log = logging.getLogger(__name__)

CPU_ROWS = (17,)
"""The row counts of the trial on a CPU. A single count is enough, because there a row's result does not depend on
other rows."""

TIMED_ROWS = (1, 33)
"""Row counts of the steps that are timed on a GPU."""

Find = Callable[[Calls, Replaced], Replaced]
"""(the calls of the model's modules in one pass, replacements so far) -> further replacements."""


@dataclass(frozen=True, slots=True)
class FusedModel:
    """A model with fused layers, or the given model. `note` names the fused parts or says why there are none. It is
    "" if we have no kernels for this device and type of weights."""

    model: PreTrainedModel
    note: str = ""
    is_fused: bool = False


def fuse(model: PreTrainedModel, machine: DeviceCapabilities, attend: Attend) -> FusedModel:
    """Return a model with fused layers, or the given model if that is not possible.

    Errors that end the load, or mean that the device is lost, are raised."""
    try:
        if machine.device.type == "cuda":
            return _fused_on_gpu(model, machine, attend)
        if machine.device.type != "cpu" or machine.cpu_kernels is None or model.dtype != torch.float32:
            return FusedModel(model)
        make = partial(NativeLayer, library=machine.cpu_kernels, workspace=Workspace())
        decoder: nn.Module = model.get_decoder()  # type: ignore[no-untyped-call]
        stages: dict[str, Find] = {
            "whole layers": partial(find_whole_layers, attend=attend, make=make),
            "whole decoder": partial(find_whole_decoder, decoder, attend=attend, make=NativeDecoder),
        }
        return fuse_by(CpuKernels(machine.cpu_kernels), model, attend, CPU_ROWS, stages)
    except Exception as error:  # compilers, drivers and broken packages raise errors of their own types
        reason = refused_because(error)
        log.info("layers keep torch's kernels, because ours failed their trial: %s", reason)
        return FusedModel(model, f"Layers keep torch's kernels, because ours failed their trial ({reason}).")


def _fused_on_gpu(model: PreTrainedModel, machine: DeviceCapabilities, attend: Attend) -> FusedModel:
    if reason := refusal(machine):
        return FusedModel(model, f"Layers keep torch's kernels: {reason}.")
    from app.engine.layers.triton_kernels import on_device

    found = fuse_by(on_device(machine.device), model, attend)
    if found.is_fused and (reason := slowness_of(found.model, model, attend)):
        return FusedModel(model, f"Layers keep torch's kernels, because {reason}.")
    return found


@torch.inference_mode()
def slowness_of(
    fused: PreTrainedModel, model: PreTrainedModel, attend: Attend, timer: Timer = gpu_seconds
) -> str:
    """Return a clause if steps of `fused` are clearly slower than those of `model`, else ""."""
    runs = [block_logits(each, attend) for each in (fused, model)]
    for block in trial_blocks(model, TIMED_ROWS):
        ours, torchs = (timer(partial(run, block)) for run in runs)
        if reason := slowness(
            ours, torchs, f"a step of {counted(len(block), 'row')} with ours", "with torch's"
        ):
            return reason
    return ""


def refusal(machine: DeviceCapabilities) -> str:
    """Return why our kernels do not support this machine's GPU; "" if they do."""
    if machine.is_rocm:
        return "ours were never tried on AMD's GPUs"
    if machine.capability < AMPERE:
        return "ours need a GPU of the Ampere generation or newer"
    return "" if machine.has_triton else "Triton is not installed for this device"


def fuse_by(
    kernels: LayerKernels,
    model: PreTrainedModel,
    attend: Attend,
    rows: Iterable[int] = ROWS,
    later_stages: Mapping[str, Find] = MappingProxyType({}),
) -> FusedModel:
    """Copy the model, replace modules of the copy if their trials succeed, and compare the copy to the model with
    torch's attention, in blocks of these row counts.

    Also joins Linears that multiply the same rows. Raises ArithmeticError if the models' logits differ."""
    stages: dict[str, Find] = {
        "norms": lambda _calls, _found: find_norms(model, kernels),
        "gated activations": lambda _calls, _found: find_mlps(model, kernels),
        "rotary embeddings": lambda calls, found: find_attentions(calls, found, kernels),
        "residual sums": find_layers,
        **later_stages,
    }
    calls = captured_calls(model, attend)
    found: Replaced = {}
    counts: dict[str, int] = {}
    for name, find in stages.items():
        new = find(calls, found)
        found |= new
        counts[name] = len(new)
    summary = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    if not summary:
        return FusedModel(model, "Layers keep torch's kernels: no layer has parts that ours can replace.")
    join_sums(calls, found)
    joined = join_products(model, found.values())
    whole = copy_with(model, found)
    compare_with_torch(whole, attend, model, rows)
    note = f"Each of these runs as one kernel of our own: {summary}."
    return FusedModel(whole, f"{note} Joined products: {joined}." if joined else note, is_fused=True)
