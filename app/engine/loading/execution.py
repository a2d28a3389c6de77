"""How a model is run on this machine: the fastest attention, layers and steps whose trial agrees, or torch's own.

First the model is asked whether it can decode blocks at all, with torch's attention (`compatibility.py`). Then what
is faster takes part: another backend, fused layers, recorded steps. Blocks of few and of many rows must have the
logits that they have without these. Whatever they raise at load, the model runs without any of them, and notes say
why.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from transformers import PreTrainedModel

from app.engine.attention.selector import (
    SDPA,
    Attention,
    DeviceCapabilities,
    capabilities_of,
    choose_attention,
    torchs_own,
)
from app.engine.block.block import Block
from app.engine.cpu_kernels.loading import cpu_kernels
from app.engine.graphs.graph_trial import choose_steps
from app.engine.layers.compatibility import (
    block_logits,
    check_sequential,
    reason_against_trees,
    rows_that_differ,
    tree_block,
    trial_blocks,
)
from app.engine.layers.fuse import FusedModel, fuse
from app.engine.layers.packing import pack_weights
from app.engine.machine.device_faults import refused_because
from app.engine.machine.tolerance import rounds_activations, tolerance_of
from app.engine.runner.kv_cache import layer_windows
from app.engine.runner.model_config import Rotary, heads_of, rotary_of
from app.engine.runner.model_runner import ModelRunner
from app.engine.runner.prefix_cache import PrefixCache, share_of_free
from app.engine.runner.runner import BlockRunner, EagerSteps, compile_variants
from app.engine.runner.sequential_runner import SequentialRunner
from app.errors import AttentionUnavailable, BadOption
from app.values.messages import AttentionChoice, ModelChoice, ModelFolder

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Execution:
    """A model's runner. `lookahead_note` is why it decodes plainly, `chains_note` why it takes no draft trees.

    With either, `attention` is what it has no use for."""

    runner: ModelRunner
    attention: Attention
    lookahead_note: str = ""
    chains_note: str = ""
    fused: bool = False
    fused_note: str = ""

    @property
    def attends(self) -> bool:
        """Whether the attention is ours."""
        return not (self.lookahead_note or self.chains_note)


def run_whole(model: PreTrainedModel, choice: ModelChoice, context: int) -> Execution:
    """A model of which this process holds everything; raises AttentionUnavailable."""
    config = model.config.get_text_config(decoder=True)
    machine = capabilities_of(model.device)
    # In float32 itself they are not the default yet.
    if machine.device.type == "cpu" and (choice.attention == "native" or rounds_activations(model)):
        machine = replace(machine, cpu_kernels=cpu_kernels())
    attention = choose_attention(choice.attention, machine, heads_of(config, model.dtype))
    reason = reason_against_trees(model, SDPA.attend)
    if layer_windows(config):  # recurrent layers read their Linears' weights in ways of their own
        pack_weights(model)
    if reason:
        return run_in_chains(model, context, reason)
    return run_in_blocks(model, attention, machine, context, choice.attention)


def check_torchs_own(folder: ModelFolder, choice: ModelChoice, how: str, why: str, other: str) -> None:
    """Raises BadOption for what `run_by_torch` does not run, because `why`: they are not done `how`."""
    if choice.quantisation != "none":
        raise BadOption(f"Quantised weights are not {how}: {other}, or leave --quantisation out.")
    if folder.path.is_file():
        raise BadOption(f"A GGUF file is not {how}: {other}, or use the model's safetensors.")
    if choice.attention not in ("auto", "sdpa"):
        raise AttentionUnavailable(choice.attention, why)


def run_by_torch(
    model: PreTrainedModel,
    context: int,
    why: str,
    make_steps: Callable[[PreTrainedModel, Attention, str], EagerSteps] = EagerSteps,
) -> Execution:
    """Blocks by torch's own kernels alone, because `why`, of a model whose weights are not all at one place."""
    attention = torchs_own(capabilities_of(model.device), why)
    steps = make_steps(model, attention, why if model.device.type == "cuda" else "")
    rotary = rotary_of(model.config.get_text_config(decoder=True), context)
    runner = BlockRunner(model, context, rotary, attention, steps)
    return Execution(runner, attention, fused_note=f"Layers keep torch's kernels: {why}.")


def run_in_chains(model: PreTrainedModel, context: int, reason: str) -> Execution:
    """Chains, or one row at a time, with transformers' own attention and cache; `reason` is why not in blocks."""
    runner = SequentialRunner(model, context)
    check_sequential(runner, model)
    if runner.longest_chain > 1:
        return Execution(
            runner, SDPA, chains_note=f"{reason}, so lookahead drafts a chain of tokens, not a tree."
        )
    if runner.chunk == 1:
        reason += " and forgets them when it is fed several tokens at once"
    return Execution(runner, SDPA, lookahead_note=f"{reason}, so it decodes plainly, token by token.")


def run_in_blocks(
    model: PreTrainedModel,
    attention: Attention,
    machine: DeviceCapabilities,
    context: int,
    choice: AttentionChoice = "auto",
) -> Execution:
    """Blocks by this attention, or by torch's where it fails; raises AttentionUnavailable if it was asked for."""
    try:
        fused = fuse(model, machine, attention.attend)
        if attention.attend is not SDPA.attend or fused.model is not model:
            compile_variants(fused.model, attention)
            rows = sorted({rows for rows, _ in machine.trials if rows > 1})
            _check_blocks(fused.model, attention, model, trial_blocks(model, rows))
        return _blocks(fused, attention, context, choose_steps)
    except Exception as error:  # a compiler's, a driver's, a broken package's: each has types of its own
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
) -> Execution:
    rotary = rotary_of(fused.model.config.get_text_config(decoder=True), context)
    steps = make_steps(fused.model, attention, rotary, context)
    others = PrefixCache(share_of_free(fused.model.device))
    runner = BlockRunner(fused.model, context, rotary, attention, steps, others=others)
    return Execution(runner, attention, fused=fused.is_fused, fused_note=fused.note)


def _check_blocks(
    fused: PreTrainedModel, attention: Attention, model: PreTrainedModel, blocks: Sequence[Block]
) -> None:
    """Raises whatever goes wrong, ArithmeticError where blocks say something else than by torch's kernels."""
    found, expected = (
        partial(block_logits, fused, attention.attend),
        partial(block_logits, model, SDPA.attend),
    )
    if rows := rows_that_differ(found, expected, [tree_block(model), *blocks], tolerance_of(model)):
        raise ArithmeticError(f"steps of {rows} rows say something else")
