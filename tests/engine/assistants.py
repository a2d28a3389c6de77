"""Assistants of Gemma 4 and their targets on disk: random ones, and ones that know their target (`heads.py`)."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Gemma4ForCausalLM, Gemma4TextConfig
from transformers.models.gemma4_assistant import Gemma4AssistantConfig, Gemma4AssistantForCausalLM

from app.values.messages import ModelFolder
from tests.engine.heads import SHARPNESS, Taught, rotation, silence, turned
from tests.engine.tiny import with_tokenizer

VOCABULARY, WIDTH, WINDOW = 4096, 32, 12
_SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 48, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "global_head_dim": 16, "num_global_key_value_heads": 1,
    "sliding_window": WINDOW, "initializer_range": 0.3, "max_position_embeddings": 256,
    "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0, "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 0,
}  # fmt: skip
_KINDS = ["sliding_attention", "full_attention"]
TARGETS: dict[str, dict[str, Any]] = {
    "own keys": {"attention_k_eq_v": True},
    "shared keys": {
        "num_kv_shared_layers": 2,
        "vocab_size_per_layer_input": VOCABULARY,
        "hidden_size_per_layer_input": 8,
    },
}
"""How targets are, as the large and the small models of the family."""
ASSISTANTS: dict[str, dict[str, Any]] = {
    "all tokens": {},
    "likeliest clusters": {
        "use_ordered_embeddings": True,
        "num_centroids": 64,
        "centroid_intermediate_top_k": 4,
    },
}


def write_target(
    folder: Path, kind: str = "own keys", turns: Tensor | None = None, seed: int = 0
) -> ModelFolder:
    """A model of four layers; with angles it says t + 1 behind token t."""
    about = {**_SHAPE, "num_hidden_layers": 4, "layer_types": 2 * _KINDS, **TARGETS[kind]}
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(seed)
        model = Gemma4ForCausalLM(Gemma4TextConfig(**about, tie_word_embeddings=False))
        if turns is not None:
            silence(model)
            for name, weight in model.named_parameters():
                if "per_layer_projection" in name:
                    weight.zero_()
            # Scaled by the width's root, as the model scales it back.
            model.get_input_embeddings().weight.copy_(turned(torch.arange(VOCABULARY), turns) / WIDTH**0.5)
            model.get_output_embeddings().weight.copy_(_said(turns))
        model.save_pretrained(folder)
    return with_tokenizer(folder)


def write_assistant(
    folder: Path,
    kind: str = "all tokens",
    target: str = "own keys",
    taught: Taught = "",
    turns: Tensor | None = None,
    seed: int = 1,
    backbone: int = WIDTH,
    **changes: Any,
) -> ModelFolder:
    """Its two files: published assistants need no tokenizer."""
    attending = {"attention_k_eq_v": TARGETS[target].get("attention_k_eq_v", False)}
    about = {**_SHAPE, "num_hidden_layers": 2, "layer_types": _KINDS, **attending, **changes}
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(seed)
        text = Gemma4TextConfig(**about, num_kv_shared_layers=2)
        config = Gemma4AssistantConfig(text_config=text, backbone_hidden_size=backbone, **ASSISTANTS[kind])
        model = Gemma4AssistantForCausalLM(config)
        if model.masked_embedding is not None:
            model.masked_embedding.token_ordering.copy_(torch.randperm(VOCABULARY))
        if turns is not None:
            silence(model)
            model.lm_head.weight.copy_(_said(turns))
            own, none = torch.eye(WIDTH), torch.zeros(WIDTH, WIDTH)
            known = [own, none] if taught == "token" else [none, rotation(turns)]
            model.pre_projection.weight.copy_(torch.cat(known, dim=1))
            model.post_projection.weight.copy_(own)
        model.save_pretrained(folder)
    return ModelFolder(folder, folder.name)


def _said(turns: Tensor) -> Tensor:
    """What a head reads of the states: t + 1 behind token t."""
    return SHARPNESS * turned(torch.arange(VOCABULARY) - 1, turns)
