"""Tries a device: a small model must give about the same results there as on the CPU."""

from collections.abc import Callable

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from app.engine.attention import NAME, register
from app.engine.attention.backend_choice import SDPA
from app.engine.layers.model_trial import block_logits, tree_block, trial_blocks
from app.engine.machine.device_faults import refused_because
from app.engine.machine.hardware import is_close
from app.engine.sampling.sampling import make_sampler
from app.values.messages import Sampling

_SAMPLING = Sampling(temperature=0.8, top_p=0.9, seed=1)


def run_small(model: PreTrainedModel) -> list[Tensor]:
    """Return the logits of a tree and of chains, and then tokens drawn from each, on the host."""
    logits = list(map(block_logits(model, SDPA.attend), (tree_block(model), *trial_blocks(model))))
    sampler = make_sampler(_SAMPLING, str(model.device))
    drawn: list[Tensor] = []
    for rows in logits:
        choices = sampler(rows, positions=range(len(rows)))
        tokens = [choices.choose(row, (0,) * row) for row in range(len(rows))]
        drawn.append(torch.tensor(tokens, dtype=torch.float32)[None])
    return [each.cpu() for each in (*logits, *drawn)]


def device_fault(device: torch.device, run: Callable[[PreTrainedModel], list[Tensor]] = run_small) -> str:
    """Return why this device cannot be used; "" if a small model gives about the same results as on the CPU."""
    try:
        model = _small_model()
        expected = run(model)
        model.train(False).to(device)
        found = run(model)
    except Exception as error:  # drivers raise errors of their own types
        return refused_because(error)
    if not all(is_close(*pair) for pair in zip(found, expected, strict=True)):
        return "a small model gives different results there than on the CPU"
    return ""


def _small_model() -> PreTrainedModel:
    """Make a Llama of two layers with random weights, which are the same each time."""
    register()
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: PreTrainedModel = LlamaForCausalLM(config)
    model.set_attn_implementation(NAME)
    model.requires_grad_(False)
    model.train(False)
    return model
