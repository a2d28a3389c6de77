"""Checkpoints of tiny models that carry a head for multi-token prediction, random or one that knows its target.

The taught target says t + 1 behind token t, whatever came before: its layers add nothing, and its embeddings turn
by the same rotation from each token to the next. So a head can know what comes next but one in two ways: by the
embedding of its token, or by turning the state that its target had before it.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    Glm4MoeConfig,
    MellumConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
    Qwen3NextConfig,
)
from transformers.modeling_layers import MtpModel

from app.engine.loading.head_loading import declare_head
from app.values.messages import ModelFolder
from tests.engine.architectures import DEEPSEEK
from tests.engine.tiny import with_tokenizer

Taught = Literal["", "token", "state"]
"""What a head knows its target by; "" for random weights."""

VOCABULARY = 4096
WIDTH = 32
SHARPNESS = 0.35
"""Of the taught target's logits: a sampled text is varied, and a greedy one is certain."""

_SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 256, "initializer_range": 0.3,
    "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
_EXPERTS: dict[str, Any] = {
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
_ONE_HEAD = {"num_nextn_predict_layers": 1}
_DELTA_NET: dict[str, Any] = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
_QWEN_EXPERTS: dict[str, Any] = {"num_experts": 4, "shared_expert_intermediate_size": 32}
_MIXED: dict[str, Any] = {
    "num_experts": 4,
    "sliding_window": 12,
    "layer_types": ["sliding_attention", "full_attention"],
}
CONFIGS: dict[str, Callable[[], PreTrainedConfig]] = {
    "deepseek-v3": lambda: DeepseekV3Config(**{**_SHAPE, **DEEPSEEK, **_ONE_HEAD}),
    "glm4-moe": lambda: Glm4MoeConfig(**_SHAPE, **_EXPERTS, **_ONE_HEAD, n_routed_experts=4),
    "mellum": lambda: MellumConfig(**_SHAPE, **_EXPERTS, **_ONE_HEAD, **_MIXED),
    "qwen3-next": lambda: Qwen3NextConfig(**_SHAPE, **_EXPERTS, **_DELTA_NET, **_QWEN_EXPERTS),
    "qwen3.5": lambda: Qwen3_5TextConfig(**_SHAPE, num_key_value_heads=2, head_dim=8, **_DELTA_NET),
    "qwen3.5-moe": lambda: Qwen3_5MoeTextConfig(**_SHAPE, **_EXPERTS, **_DELTA_NET, **_QWEN_EXPERTS),
}


def write_with_head(
    folder: Path, kind: str = "deepseek-v3", taught: Taught = "", seed: int = 0
) -> ModelFolder:
    """Save a model and its head as such checkpoints are saved, with the demo model's tokenizer."""
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(seed)
        make: Any = AutoModelForCausalLM.from_config  # untyped there
        model: PreTrainedModel = make(CONFIGS[kind](), dtype=torch.float32)
        heads = _heads_of(model)
        for parameter in heads.layers.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.3)
        if taught:
            _teach(model, heads, taught)
        model.save_pretrained(folder)
        _append(folder, dict(_named(heads, model.config.num_hidden_layers, kind)))
    return with_tokenizer(folder)


def _heads_of(model: PreTrainedModel) -> MtpModel:
    """A random head; the configs of Qwen's models do not tell transformers of one."""
    if hasattr(model.config, "num_mtp_layers"):
        return MtpModel(model, 1)
    declare_head(model.config)
    heads = MtpModel(model, 1)
    del model.config.num_mtp_layers, model.config.mtp_layer_types
    return heads


def _teach(model: PreTrainedModel, heads: MtpModel, taught: Taught) -> None:
    silence(model)
    silence(heads.layers)
    turns = torch.randint(1, VOCABULARY, (WIDTH // 2,)) * (2 * math.pi / VOCABULARY)
    model.get_input_embeddings().weight.copy_(turned(torch.arange(VOCABULARY), turns))
    sharpness = SHARPNESS / model.get_decoder().norm(torch.ones(1, WIDTH)).mean()
    model.get_output_embeddings().weight.copy_(sharpness * turned(torch.arange(VOCABULARY) - 1, turns))
    nothing = torch.zeros(WIDTH, WIDTH)
    known = [torch.eye(WIDTH), nothing] if taught == "token" else [nothing, rotation(turns)]
    heads.layers[0].eh_proj.weight.copy_(torch.cat(known, dim=1))


def silence(module: nn.Module) -> None:
    """Have its layers add nothing."""
    for name, parameter in module.named_parameters():
        if "o_proj" in name or "out_proj" in name or "down_proj" in name:
            parameter.zero_()


def turned(numbers: Tensor, turns: Tensor) -> Tensor:
    """Each number's point on circles [n, WIDTH]; all are of the same length."""
    angles = numbers[:, None] * turns
    return torch.cat([angles.cos(), angles.sin()], dim=1) * math.sqrt(2)


def rotation(turns: Tensor) -> Tensor:
    """Leads from each number's point to the next one's."""
    cos, sin = torch.diag(turns.cos()), torch.diag(turns.sin())
    return torch.cat([torch.cat([cos, -sin], dim=1), torch.cat([sin, cos], dim=1)])


def _named(heads: MtpModel, layers: int, kind: str) -> Iterator[tuple[str, Tensor]]:
    """A head's weights by their names in checkpoints."""
    for name, weight in heads.layers[0].state_dict().items():
        name = _name_of(name, layers, kind)
        if name.endswith("experts.gate_up_proj"):
            for number, both in enumerate(weight):
                for part, half in zip(("gate_proj", "up_proj"), both.chunk(2), strict=True):
                    yield name.replace("gate_up_proj", f"{number}.{part}.weight"), half.clone()
        elif name.endswith("experts.down_proj"):
            for number, down in enumerate(weight):
                yield name.replace("down_proj", f"{number}.down_proj.weight"), down.clone()
        else:
            yield name, weight.clone()


_OF_MELLUM = {
    "enorm": "pre_fc_norm_embedding",
    "hnorm": "pre_fc_norm_hidden",
    "eh_proj": "fc",
    "post_norm": "norm",
    "mtp_block": "layers.0",
}


def _name_of(name: str, layers: int, kind: str) -> str:
    first, rest = name.split(".", 1)
    if kind.startswith(("mellum", "qwen")):
        return f"mtp.{_OF_MELLUM[first]}.{rest}"
    part = {"mtp_block": "", "post_norm": "shared_head.norm."}.get(first, f"{first}.")
    return f"model.layers.{layers}.{part}{rest}"


def _append(folder: Path, weights: dict[str, Tensor]) -> None:
    path = folder / "model.safetensors"
    with safe_open(path, framework="pt") as saved:
        names = saved.keys()
        weights |= {name: saved.get_tensor(name) for name in names}
    save_file(weights, path, {"format": "pt"})
