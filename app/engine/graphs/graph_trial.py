"""Whether steps can be CUDA graphs on this device: a tiny block must have the same logits by a graph as eagerly."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention.selector import Attention
from app.engine.block.block import chain_block, padded
from app.engine.block.entries import SUCCESSORS
from app.engine.graphs.graph_capture import GraphCapturer
from app.engine.graphs.step_graphs import EAGER_STEPS, NO_MEMORY, GraphSteps
from app.engine.machine.memory import is_out_of_memory
from app.engine.machine.tolerance import is_close
from app.engine.measuring.threads import steps_on_cpu
from app.engine.runner.kv_cache import BlockCache
from app.engine.runner.model_config import Rotary
from app.engine.runner.runner import EagerSteps, run_block
from app.engine.sampling.batched_sampling import best_tokens

_TRIAL = (3, 1, 4, 1, 5, 9, 2, 6)
_TRIAL_PREFIX = 5


def choose_steps(model: PreTrainedModel, attention: Attention, rotary: Rotary, context: int) -> EagerSteps:
    """Graphs where the device has them and our kernels attend, if they pass a trial."""
    if model.device.type == "cpu":
        return steps_on_cpu(model, attention)
    if model.device.type != "cuda":
        return EagerSteps(model, attention)
    if attention.name != "triton":
        return EagerSteps(model, attention, f"they need the triton attention, and {attention.name} attends")
    return tried_graphs(model, attention, rotary, GraphCapturer(model.device), context)


def tried_graphs(
    model: PreTrainedModel, attention: Attention, rotary: Rotary, capturer: GraphCapturer, context: int
) -> EagerSteps:
    """Graphs, if a tiny block has the same logits by a graph as eagerly; else eager steps and a note."""
    if rotary.kind == "dynamic":
        return EagerSteps(model, attention, "its rotary table depends on the text's length")
    note = ""
    for most_best in (SUCCESSORS, 0):  # a card's library may not look for likeliest tokens in a graph
        make = partial(GraphSteps, model, attention, capturer, most_best=most_best)
        if not (note := _note_of_trials(make, capturer)):
            return make(context=context)
    return EagerSteps(model, attention, note)


def _note_of_trials(make: Callable[..., GraphSteps], capturer: GraphCapturer) -> str:
    """With as few rows as can be where memory is too small for more."""
    note = NO_MEMORY
    for rows in (8, 1):
        if note.startswith(NO_MEMORY):
            note = _note_of_trial(make(context=len(_TRIAL)), rows)
            capturer.release()
    return note


def _note_of_trial(steps: GraphSteps, rows: int) -> str:
    """Why steps cannot be these graphs; "" where they can."""
    try:
        is_same = _says_the_same(steps, rows)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return f"{NO_MEMORY} when they were tried"
    return steps.note or ("" if is_same else "a graph said something else")


@torch.inference_mode()
def _says_the_same(steps: GraphSteps, rows: int) -> bool:
    """Read so many rows behind a prefix that grows, until they come from a graph that was made for others."""
    model, attention = steps.model, steps.attention
    cache, eager = BlockCache(), EagerSteps(model, attention)
    text, rest = _TRIAL[:_TRIAL_PREFIX], _TRIAL[_TRIAL_PREFIX:]
    run_block(model, cache, chain_block(text, 0, wanted=()), attention.attend)
    cache.commit(range(len(text)))
    for turn in range(EAGER_STEPS + 2):
        line = rest[turn % 2 :][:rows]
        block = padded(chain_block(line, cache.length, wanted=tuple(range(len(line)))), rows, rows)
        expected = eager.forward(cache, block)
        found = steps.forward(cache, block)
        best = steps.best_tokens(rows, 1)
        if not is_close(found, expected) or not (best is None or _is_best(best, found)):
            return False
        cache.commit((0,))
    return True


def _is_best(best: Tensor, logits: Tensor) -> bool:
    """Whether a graph has found what is found in its logits."""
    return torch.equal(best, best_tokens(logits, best.shape[1] // 2))
