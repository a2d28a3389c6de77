"""Chooses the kernels that run a model: fast kernels if they pass a trial with the model, otherwise torch's."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from transformers import PreTrainedModel

from app.engine.attention.backend_choice import (
    SDPA,
    Attention,
    DeviceCapabilities,
    capabilities_of,
    choose_attention,
    torchs_own,
)
from app.engine.cpu_kernels import cpu_kernels
from app.engine.graphs.graph_trial import choose_steps
from app.engine.layers.fusion_choice import FusedModel, fuse
from app.engine.layers.model_trial import check_sequential, compare_with_torch, reason_against_trees
from app.engine.layers.packing import pack_weights
from app.engine.layers.recurrent_layers import calls_its_linears
from app.engine.machine.device_faults import refused_because
from app.engine.machine.hardware import rounding_of
from app.engine.runner.model_config import Rotary, heads_of, rotary_of
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.prefix_cache import PrefixCache, share_of_free
from app.engine.runner.runner import BlockRunner, EagerSteps, compile_variants
from app.engine.runner.sequential_runner import SequentialRunner
from app.engine.sampling.sampling import kernel_fault
from app.errors import AttentionUnavailable
from app.values.messages import AttentionChoice, ModelChoice, NoteName

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """A model's runner and the kernels that it uses.

    Among the notes about the model, "lookahead" explains why it decodes plainly, and "chains" why it accepts chains
    but no draft trees. In both cases transformers' own attention is used instead of `attention`."""

    runner: ModelRunner
    attention: Attention
    notes: Mapping[NoteName, str]
    fused: bool = False

    @property
    def attends(self) -> bool:
        """Whether the model uses `attention`, as all models do that can read draft trees."""
        return self.notes.keys().isdisjoint(("lookahead", "chains"))


def choose_kernels(model: PreTrainedModel, choice: ModelChoice, context: int) -> KernelChoice:
    """Choose kernels for a model that is on one device as a whole. On a CPU, pack its weights if that helps.

    Raises AttentionUnavailable, and ModelBroken if the model cannot be run."""
    config = model.config.get_text_config(decoder=True)
    machine = capabilities_of(model.device)
    # Without layers that round activations, our CPU kernels are used only if their attention is chosen.
    if machine.device.type == "cpu" and (choice.attention == "native" or rounding_of(model)):
        machine = replace(machine, cpu_kernels=cpu_kernels())
    attention = choose_attention(choice.attention, machine, heads_of(config, model.dtype))
    reason = reason_against_trees(model, SDPA.attend)
    if calls_its_linears(model):
        pack_weights(model)
    if reason:
        return run_in_chains(model, context, reason)
    return run_in_blocks(model, attention, machine, context, choice.attention)


def run_in_chains(model: PreTrainedModel, context: int, reason: str) -> KernelChoice:
    """Return a runner of chains, or of one row at a time, with transformers' attention and cache.

    `reason` explains why the model cannot check trees. Raises ModelBroken if the model cannot run row by row."""
    runner = SequentialRunner(model, context)
    check_sequential(runner, model)
    if runner.longest_chain > 1:
        return KernelChoice(
            runner, SDPA, {"chains": f"{reason}, so lookahead guesses one chain of tokens, not a tree."}
        )
    if runner.chunk == 1:
        reason += " and loses its state when it is fed several tokens at once"
    return KernelChoice(runner, SDPA, {"lookahead": f"{reason}, so it decodes plainly, token by token."})


def run_in_blocks(
    model: PreTrainedModel,
    attention: Attention,
    machine: DeviceCapabilities,
    context: int,
    choice: AttentionChoice = "auto",
) -> KernelChoice:
    """Return a runner of blocks with this attention, or with torch's kernels if the trial fails.

    Raises AttentionUnavailable if the trial fails and `choice` names another attention than torch's."""
    try:
        fused = fuse(model, machine, attention.attend)
        if attention.attend is not SDPA.attend or fused.is_fused:
            compile_variants(fused.model, attention)
            if machine.device.type == "cuda":
                vocabulary = model.config.get_text_config(decoder=True).vocab_size
                kernel_fault(model.device, model.dtype, vocabulary)  # compiled now, so that no reply waits
        if not fused.is_fused and attention.attend is not SDPA.attend:  # `fuse` has compared a fused model
            rows = sorted({rows for rows, _ in machine.trials if rows > 1})
            compare_with_torch(model, attention.attend, model, rows)
        return _blocks(fused, attention, context, choose_steps)
    except Exception as error:  # compilers, drivers and broken packages raise errors of their own types
        reason = f"its trial with this model failed ({refused_because(error)})"
        log.info("%s: %s", attention.name, reason, exc_info=error)
        if choice not in ("auto", "sdpa"):
            raise AttentionUnavailable(choice, reason) from error
    plain = FusedModel(model, f"Layers keep torch's kernels: {reason}.")
    is_torchs = attention.attend is SDPA.attend
    other = attention if is_torchs else torchs_own(machine, f"{attention.name}: {reason}")
    note = reason if machine.device.type == "cuda" else ""
    return _blocks(plain, other, context, lambda model, attention, *_: EagerSteps(model, attention, note))


def _blocks(
    fused: FusedModel,
    attention: Attention,
    context: int,
    make_steps: Callable[[PreTrainedModel, Attention, Rotary, int], EagerSteps],
) -> KernelChoice:
    rotary = rotary_of(fused.model.config.get_text_config(decoder=True), context)
    steps = make_steps(fused.model, attention, rotary, context)
    others = PrefixCache(share_of_free(fused.model.device))
    runner = BlockRunner(fused.model, context, rotary, attention, steps, others=others)
    return KernelChoice(runner, attention, {"fused": fused.note}, fused.is_fused)
