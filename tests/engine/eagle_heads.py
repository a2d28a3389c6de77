"""EAGLE-3 heads on disk as vllm-project/speculators saves them: random ones, and ones that know their target.

The taught target says t + 1 behind token t, whatever came before (`heads.py`). A head knows what comes next by the
embedding of its token, or by turning the state that its target had one token before. Its attention then looks at
its own row alone.
"""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3_5TextConfig

from app.values.messages import ModelFolder
from tests.engine.heads import SHARPNESS, Taught, rotation, silence, turned
from tests.engine.tiny import with_tokenizer

VOCABULARY, WIDTH, HEADS = 4096, 32, 4
NAMED = [*range(2048), *range(2900, 3200)]
"""The target's tokens that heads name."""
LAYER: dict[str, Any] = {
    "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 48,
    "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
    "head_dim": WIDTH // HEADS,
    "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
}  # fmt: skip
_DELTA_NET = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
Weights = dict[str, Tensor]


def config_of(layer: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A config.json as published ones are."""
    verifier = {"architectures": ["LlamaForCausalLM"], "name_or_path": "org/target"}
    return {
        "architectures": ["Eagle3DraftModel"],
        "draft_vocab_size": len(NAMED),
        "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
        "norm_before_residual": False,
        "speculators_config": {"algorithm": "eagle3", "verifier": verifier},
        "speculators_model_type": "eagle3",
        "target_hidden_size": None,
        "transformer_layer_config": layer,
        **changes,
    }


@dataclass(frozen=True)
class Kind:
    """How a head differs from the usual one."""

    layer: dict[str, Any] = field(default_factory=dict)
    flags: dict[str, Any] = field(default_factory=dict)
    has_embedding: bool = True
    names_all: bool = False

    @property
    def config(self) -> dict[str, Any]:
        size = {"draft_vocab_size": VOCABULARY} if self.names_all else {}
        return config_of(LAYER | self.layer, **size, **self.flags)

    def __str__(self) -> str:
        return self.layer.get("model_type", "llama")


KINDS = {
    "llama": Kind(),
    "own width": Kind({"hidden_size": 24, "head_dim": 8}, {"target_hidden_size": WIDTH}),
    "qwen3": Kind({"model_type": "qwen3", "num_key_value_heads": 2}, {"norm_before_residual": True}),
    "no embedding": Kind({}, {"norm_before_residual": True}, has_embedding=False, names_all=True),
    "norm before fc": Kind({"num_hidden_layers": 2}, {"norm_before_fc": True, "norm_output": True}),
    "norms of states": Kind(
        {"attention_bias": True}, {"fc_norm": True, "eagle_aux_hidden_state_layer_ids": [3, 1]}
    ),
}


def random_weights(kind: Kind, seed: int = 0) -> Weights:
    """By the names in published checkpoints."""
    config, generator = kind.config, torch.Generator().manual_seed(seed)
    layer, states = config["transformer_layer_config"], config["eagle_aux_hidden_state_layer_ids"]
    hidden, inner, size = layer["hidden_size"], layer["intermediate_size"], layer["head_dim"]
    heads, shared = layer["num_attention_heads"] * size, layer["num_key_value_heads"] * size
    shapes = {
        "fc": (hidden, len(states) * WIDTH),
        "norm": (hidden,),
        "lm_head": (config["draft_vocab_size"], hidden),
    }
    for number in range(layer["num_hidden_layers"]):
        read, part = hidden if number else 2 * hidden, f"layers.{number}"
        shapes |= {f"{part}.input_layernorm": (hidden,), f"{part}.post_attention_layernorm": (hidden,)}
        shapes |= {f"{part}.self_attn.q_proj": (heads, read), f"{part}.self_attn.o_proj": (hidden, heads)}
        shapes |= {f"{part}.self_attn.{name}_proj": (shared, read) for name in "kv"}
        shapes |= {f"{part}.mlp.{name}_proj": (inner, hidden) for name in ("gate", "up")}
        shapes |= {f"{part}.mlp.down_proj": (hidden, inner)}
        if layer["model_type"] == "qwen3":
            shapes |= {f"{part}.self_attn.{name}_norm": (size,) for name in "qk"}
    shapes |= {"layers.0.hidden_norm": (hidden,)}
    shapes |= {"embed_tokens": (VOCABULARY, hidden)} if kind.has_embedding else {}
    shapes |= {"input_norm": (len(states) * WIDTH,)} if config.get("norm_before_fc") else {}
    shapes |= {f"fc_norm.{place}": (WIDTH,) for place in range(len(states))} if config.get("fc_norm") else {}
    weights = {
        f"{name}.weight": 0.3 * torch.randn(shape, generator=generator) for name, shape in shapes.items()
    }
    for name in [name for name in weights if "norm" in name]:
        weights[name] += 1
    if layer.get("attention_bias"):
        outs = {name: heads if name == "q" else hidden if name == "o" else shared for name in "qkvo"}
        for name, count in outs.items():
            weights[f"layers.0.self_attn.{name}_proj.bias"] = 0.3 * torch.randn(count, generator=generator)
    return weights if kind.names_all else weights | tables()


def tables() -> Weights:
    """Which tokens a head names: each of its own as an offset to the target's."""
    named = torch.tensor(NAMED)
    known = torch.zeros(VOCABULARY, dtype=torch.bool)
    known[named] = True
    return {"d2t": named - torch.arange(len(named)), "t2d": known}


TAUGHT = {"token": KINDS["no embedding"], "state": KINDS["llama"]}
"""What heads are that know their target by either. One that goes by tokens leaves out what its row begins with."""


def taught_weights(by: Taught, turns: Tensor) -> Weights:
    """A head that knows the target whose embeddings turn by these angles."""
    kind = TAUGHT[by]
    weights, named = random_weights(kind), torch.arange(VOCABULARY) if kind.names_all else torch.tensor(NAMED)
    own, none, turn = torch.eye(WIDTH), torch.zeros(WIDTH, WIDTH), rotation(turns)
    # Each head compares four circles, cosines and sines: it finds its own row the most like itself.
    circles = torch.arange(WIDTH).reshape(2, HEADS, -1).transpose(0, 1).flatten()
    looked_at = [own, none] if by == "token" else [none, own]
    look = torch.cat(looked_at, dim=1)[circles]
    layer = {f"layers.0.self_attn.{name}_proj.weight": 30 * look for name in "qk"}
    layer |= {"layers.0.self_attn.v_proj.weight": torch.cat(looked_at, dim=1)}
    layer |= {"layers.0.self_attn.o_proj.weight": own if by == "token" else turn - own}
    layer |= {"layers.0.mlp.down_proj.weight": torch.zeros(WIDTH, 48)}
    layer |= {name: torch.ones(WIDTH) for name in weights if name.endswith("norm.weight")}
    if by == "token":  # and nothing of what is behind it
        layer["layers.0.hidden_norm.weight"] = torch.full((WIDTH,), 0.01)
    ends = {
        "fc.weight": torch.cat([own, own, own], dim=1) / 3,
        "lm_head.weight": SHARPNESS * turned(named - 1, turns),
    }
    table = {"embed_tokens.weight": turned(torch.arange(VOCABULARY), turns)} if kind.has_embedding else {}
    return weights | layer | ends | table


def write_target(
    folder: Path, turns: Tensor | None = None, seed: int = 0, is_hybrid: bool = False
) -> ModelFolder:
    """A model of four layers, three of them gated delta nets if `is_hybrid`; with angles it says t + 1 behind token
    t."""
    torch.manual_seed(seed)
    with torch.inference_mode():
        about = {key: value for key, value in LAYER.items() if key != "model_type"}
        about |= {"num_hidden_layers": 4, "bos_token_id": 0, "eos_token_id": 2}
        make: Any = AutoModelForCausalLM.from_config  # untyped there
        model = make(Qwen3_5TextConfig(**about, **_DELTA_NET) if is_hybrid else LlamaConfig(**about))
        for parameter in model.parameters():
            parameter *= 3.0
        if turns is not None:
            silence(model)
            model.model.norm.weight.fill_(0.0 if is_hybrid else 1.0)  # Qwen's norms add 1
            model.get_input_embeddings().weight.copy_(turned(torch.arange(VOCABULARY), turns))
            model.get_output_embeddings().weight.copy_(
                SHARPNESS * turned(torch.arange(VOCABULARY) - 1, turns)
            )
        model.save_pretrained(folder)
    return with_tokenizer(folder)


def random_turns(seed: int = 0) -> Tensor:
    """Angles between the embeddings of a token and the next."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, VOCABULARY, (WIDTH // 2,), generator=generator) * (2 * math.pi / VOCABULARY)


def write_head(folder: Path, config: dict[str, Any], weights: Weights) -> ModelFolder:
    """Its two files: published heads have no tokenizer."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: weight.contiguous() for name, weight in weights.items()}, folder / "model.safetensors")
    return ModelFolder(folder, folder.name)
