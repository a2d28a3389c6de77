"""Tests whether steps can run as CUDA graphs: tiny graphs must give the logits and tokens of eager steps."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from transformers import PreTrainedModel

from app.engine.attention.backend_choice import Attention
from app.engine.block.block import chain_block, padded
from app.engine.graphs.captured_steps import EAGER_STEPS, NO_MEMORY, Choose, GraphSteps
from app.engine.graphs.graph_capturer import GraphCapturer
from app.engine.machine.hardware import is_close
from app.engine.machine.kernel_timing import Timer, slowness, step_seconds
from app.engine.machine.process_memory import is_out_of_memory
from app.engine.measuring.cpu_threads import steps_on_cpu
from app.engine.runner.kv_cache import BlockCache, block_cache
from app.engine.runner.model_config import Rotary
from app.engine.runner.runner import EagerSteps, run_block
from app.engine.sampling.sampling import MOST_LIKELY, Draws, best_tokens, kernel_fault
from app.values.messages import Sampling

_TRIAL = (3, 1, 4, 1, 5, 9, 2, 6)
_TRIAL_PREFIX = 5
_DRAWN = Sampling(0.8, top_k=20, top_p=0.95)


def choose_steps(model: PreTrainedModel, attention: Attention, rotary: Rotary, context: int) -> EagerSteps:
    """Choose how steps run on the model's device.

    On a CUDA GPU steps are graphs if attention is our Triton kernel, the model has no recurrent state, and a trial
    succeeds. Otherwise steps are eager; on a CPU they may also choose their number of threads."""
    if model.device.type == "cpu":
        return steps_on_cpu(model, attention)
    if model.device.type != "cuda":
        return EagerSteps(model, attention)
    if attention.name != "triton":
        return EagerSteps(
            model, attention, f"they need Triton attention, but {attention.name} attention is in use"
        )
    if block_cache(model.config).is_recurrent:
        return EagerSteps(model, attention, "the model's recurrent state is computed anew in each step")
    chooses: Choose | None = None
    if not kernel_fault(model.device, model.dtype, model.config.get_text_config(decoder=True).vocab_size):
        from app.engine.sampling.sampling_triton import choose_on_gpu as chooses
    capturer = GraphCapturer(model.device)
    return tried_graphs(model, attention, rotary, capturer, context, step_seconds, chooses)


def tried_graphs(
    model: PreTrainedModel,
    attention: Attention,
    rotary: Rotary,
    capturer: GraphCapturer,
    context: int,
    timer: Timer | None = None,
    choose: Choose | None = None,
) -> EagerSteps:
    """Return graphs if these pass a trial against eager steps, else eager steps with a note on the reason.

    Graphs must give close logits and the same tokens, and not be clearly slower; without a `timer` nothing is
    timed. Graphs also `choose` tokens, unless the trial succeeds only without `choose`."""
    if rotary.kind == "dynamic":
        return EagerSteps(model, attention, "the model's rotary table depends on the text's length")
    for chooses in dict.fromkeys((choose, None)):
        make = partial(GraphSteps, model, attention, capturer, choose=chooses)
        if not (note := _note_of_trials(make, capturer, timer)):
            return make(context=context)
    return EagerSteps(model, attention, note)


def _note_of_trials(make: Callable[..., GraphSteps], capturer: GraphCapturer, timer: Timer | None) -> str:
    """Try graphs of 8 rows, or of 1 row if memory runs out; return why graphs are not used, or ""."""
    for rows in (8, 1):
        steps = make(context=len(_TRIAL))
        try:
            fault = _fault_of(steps, rows, timer)
            note = steps.note or fault
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            note = f"{NO_MEMORY} when graphs were tried"
        capturer.release()
        if not note.startswith(NO_MEMORY):
            break
    return note


@torch.inference_mode()
def _fault_of(steps: GraphSteps, rows: int, timer: Timer | None) -> str:
    """Run blocks of `rows` rows eagerly and as graphs; return why graphs are not used, or ""."""
    model, attention = steps.model, steps.attention
    cache, eager = BlockCache(), EagerSteps(model, attention)
    steps.sampling = _DRAWN
    text, rest = _TRIAL[:_TRIAL_PREFIX], _TRIAL[_TRIAL_PREFIX:]
    run_block(model, cache, chain_block(text, 0, wanted=()), attention.attend)
    cache.commit(range(len(text)))
    for turn in range(EAGER_STEPS + 2):
        line = rest[turn % 2 :][:rows]
        block = padded(chain_block(line, cache.length, wanted=tuple(range(len(line)))), rows, rows)
        expected = eager.forward(cache, block)
        found = steps.forward(cache, block)
        draws = Draws(_DRAWN, tuple(block.positions[row] + 1 for row in block.wanted))
        best = steps.best_tokens(rows, 1, draws)
        is_best = best is None or torch.equal(best, best_tokens(found, MOST_LIKELY, draws))
        if not is_close(found, expected) or not is_best:
            return "a graph gave other logits or tokens than a step without a graph"
        cache.commit((0,))
    if timer is None:
        return ""
    block = replace(block, positions=tuple(place + 1 for place in block.positions))
    recorded, eagerly = (timer(partial(each.forward, cache, block)) for each in (steps, eager))
    return slowness(recorded, eagerly, "a graph", "a step without a graph")
