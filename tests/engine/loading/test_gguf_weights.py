"""Tensors of a GGUF file become the weights that they were made from, whatever llama.cpp's converter changed.

Each case writes a tiny random model as that converter does, and reads it again: the same logits, and nothing else.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, PreTrainedModel

from app.engine.loading.gguf_weights import SMALL, read_tensor, stored_weights
from app.engine.loading.weights import read_weights
from app.engine.text.gguf_config import config_of
from app.values.gguf_header import read_gguf_header
from app.values.messages import ModelFolder
from tests.gguf_models import split_gguf, write_gguf, write_tensors

SIZES: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": None,
}  # fmt: skip
VALUES: dict[str, Any] = {
    "block_count": 2, "context_length": 64, "embedding_length": 32, "feed_forward_length": 48,
    "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-6,
}  # fmt: skip
Stored = dict[str, Tensor]
Case = tuple[str, str, dict[str, Any], dict[str, Any], Callable[[Mapping[str, Tensor]], Stored]]


def named(weights: Mapping[str, Tensor], layer: Mapping[str, str]) -> Stored:
    """The tensors of a model that are stored as they are: the common ones, and those of each layer by `layer`."""
    found = {
        "token_embd.weight": weights["model.embed_tokens.weight"],
        "output_norm.weight": weights["model.norm.weight"],
        "output.weight": weights["lm_head.weight"],
    }
    common = {
        "attn_norm.weight": "input_layernorm.weight", "ffn_norm.weight": "post_attention_layernorm.weight",
        "attn_q.weight": "self_attn.q_proj.weight", "attn_k.weight": "self_attn.k_proj.weight",
        "attn_v.weight": "self_attn.v_proj.weight", "attn_output.weight": "self_attn.o_proj.weight",
    }  # fmt: skip
    for number in range(SIZES["num_hidden_layers"]):
        for name, module in {**common, **layer}.items():
            if (weight := weights.get(f"model.layers.{number}.{module}")) is not None:
                found[f"blk.{number}.{name}"] = weight
    return found


DENSE = {f"ffn_{name}.weight": f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")}


def in_pairs(weight: Tensor, heads: int) -> Tensor:
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def llama(weights: Mapping[str, Tensor]) -> Stored:
    found = named(weights, DENSE)
    for name in found:
        if ".attn_q." in name or ".attn_k." in name:
            found[name] = in_pairs(found[name], 4 if ".attn_q." in name else 2)
    return found


def llama3(weights: Mapping[str, Tensor]) -> Stored:
    return {**llama(weights), "rope_freqs.weight": torch.tensor([1.0, 1.0, 2.5, 8.0])}


def gemma(weights: Mapping[str, Tensor]) -> Stored:
    found = named(weights, DENSE)
    del found["output.weight"]
    return {name: weight + 1 if name.endswith("norm.weight") else weight for name, weight in found.items()}


def experts(weights: Mapping[str, Tensor]) -> Stored:
    found = named(
        weights,
        {
            "attn_q_norm.weight": "self_attn.q_norm.weight", "attn_k_norm.weight": "self_attn.k_norm.weight",
            "ffn_gate_inp.weight": "mlp.gate.weight", "ffn_down_exps.weight": "mlp.experts.down_proj",
        },
    )  # fmt: skip
    for number in range(2):
        gate, up = weights[f"model.layers.{number}.mlp.experts.gate_up_proj"].chunk(2, dim=1)
        found |= {f"blk.{number}.ffn_gate_exps.weight": gate, f"blk.{number}.ffn_up_exps.weight": up}
    return found


def turns(weights: Mapping[str, Tensor]) -> Stored:
    """Experts of gpt-oss: transposed, and rows of gates and of values take turns."""
    parts = ("q_proj", "attn_q"), ("k_proj", "attn_k"), ("v_proj", "attn_v"), ("o_proj", "attn_output")
    found = named(
        weights,
        {
            **{f"{stored}.bias": f"self_attn.{module}.bias" for module, stored in parts},
            "attn_sinks.weight": "self_attn.sinks", "ffn_down_exps.bias": "mlp.experts.down_proj_bias",
            "ffn_gate_inp.weight": "mlp.router.weight", "ffn_gate_inp.bias": "mlp.router.bias",
            "attn_post_norm.weight": "none",
        },
    )  # fmt: skip
    for number in range(2):
        module, block = f"model.layers.{number}.mlp.experts.", f"blk.{number}."
        found[f"{block}post_attention_norm.weight"] = found.pop(f"{block}ffn_norm.weight")
        found[f"{block}ffn_down_exps.weight"] = weights[f"{module}down_proj"].transpose(1, 2)
        both, bias = weights[f"{module}gate_up_proj"].transpose(1, 2), weights[f"{module}gate_up_proj_bias"]
        for first, name in enumerate(("gate", "up")):
            found[f"{block}ffn_{name}_exps.weight"] = both[:, first::2]
            found[f"{block}ffn_{name}_exps.bias"] = bias[:, first::2]
    return found


def latent(weights: Mapping[str, Tensor]) -> Stored:
    """Compressed keys and values (MLA): one matrix for each, and that of the keys is transposed."""
    found = named(
        weights,
        {
            **DENSE, "attn_q_a.weight": "self_attn.q_a_proj.weight", "attn_q_b.weight": "self_attn.q_b_proj.weight",
            "attn_q_a_norm.weight": "self_attn.q_a_layernorm.weight",
            "attn_kv_a_norm.weight": "self_attn.kv_a_layernorm.weight",
            "attn_kv_a_mqa.weight": "self_attn.kv_a_proj_with_mqa.weight",
            "ffn_gate_inp.weight": "mlp.gate.weight", "exp_probs_b.bias": "mlp.gate.e_score_correction_bias",
            "ffn_down_exps.weight": "mlp.experts.down_proj",
            **{key.replace(".", "_shexp."): one.replace("mlp", "mlp.shared_experts") for key, one in DENSE.items()},
        },
    )  # fmt: skip
    for number in range(2):
        heads = weights[f"model.layers.{number}.self_attn.kv_b_proj.weight"].view(4, 8 + 8, 16)
        found[f"blk.{number}.attn_k_b.weight"] = heads[:, :8].transpose(1, 2)
        found[f"blk.{number}.attn_v_b.weight"] = heads[:, 8:]
    gate, up = weights["model.layers.1.mlp.experts.gate_up_proj"].chunk(2, dim=1)
    return {**found, "blk.1.ffn_gate_exps.weight": gate, "blk.1.ffn_up_exps.weight": up}


def fused(weights: Mapping[str, Tensor]) -> Stored:
    """Queries, keys and values in one matrix: those of all heads follow each other, not those of one head."""
    modules = {
        "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "ffn_down": "mlp.dense_4h_to_h",
        "attn_output": "attention.dense", "ffn_up": "mlp.dense_h_to_4h", "attn_qkv": "attention.query_key_value",
    }  # fmt: skip
    found = {
        "token_embd.weight": weights["gpt_neox.embed_in.weight"],
        "output.weight": weights["lm_head.weight"],
    }
    for end in ("weight", "bias"):
        found[f"output_norm.{end}"] = weights[f"gpt_neox.final_layer_norm.{end}"]
        for number in range(2):
            for stored, module in modules.items():
                weight = weights[f"gpt_neox.layers.{number}.{module}.{end}"]
                if stored == "attn_qkv":
                    weight = weight.view(4, 3, 8, *weight.shape[1:]).transpose(0, 1).reshape(weight.shape)
                found[f"blk.{number}.{stored}.{end}"] = weight
    return found


def recurrent(weights: Mapping[str, Tensor]) -> Stored:
    names = {
        "norm.weight": "attn_norm.weight", "mixer.A_log": "ssm_a", "mixer.D": "ssm_d",
        "mixer.dt_bias": "ssm_dt.bias",
        "mixer.conv1d.weight": "ssm_conv1d.weight", "mixer.conv1d.bias": "ssm_conv1d.bias",
        "mixer.in_proj.weight": "ssm_in.weight", "mixer.out_proj.weight": "ssm_out.weight",
        "mixer.norm.weight": "ssm_norm.weight",
    }  # fmt: skip
    forms: dict[str, Callable[[Tensor], Tensor]] = {
        "ssm_a": lambda one: -one.exp().unsqueeze(1), "ssm_d": lambda one: one.unsqueeze(1),
        "ssm_conv1d.weight": lambda one: one.squeeze(1), "ssm_norm.weight": lambda one: one.view(2, -1),
    }  # fmt: skip
    found = {
        "token_embd.weight": weights["backbone.embeddings.weight"],
        "output_norm.weight": weights["backbone.norm_f.weight"],
        "output.weight": weights["lm_head.weight"],
    }  # fmt: skip
    for number in range(2):
        for module, stored in names.items():
            weight = weights[f"backbone.layers.{number}.{module}"]
            found[f"blk.{number}.{stored}"] = forms.get(stored, lambda one: one)(weight)
    return found


def joined(weights: Mapping[str, Tensor]) -> Stored:
    """A model whose queries, keys and values were joined, in this order, when it was converted."""
    found = llama(weights)
    for number in range(2):
        parts = [found.pop(f"blk.{number}.attn_{one}.weight") for one in "qkv"]
        found[f"blk.{number}.attn_qkv.weight"] = torch.cat(parts)
    return found


MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
MOE_VALUES = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 16}
LONG = {
    "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.0, 2.5, 8.0], "attention_factor": 1.0,
    "long_factor": [1.0, 1.0, 2.5, 8.0], "original_max_position_embeddings": 8192,
}  # fmt: skip
CASES: dict[str, Case] = {
    "pairs": ("llama", "llama", {"head_dim": 8}, {"attention.key_length": 8}, llama),
    "factors": ("llama", "llama", {"rope_parameters": LONG}, {}, llama3),
    "joined": ("llama", "llama", {"head_dim": 8}, {"attention.key_length": 8}, joined),
    "minus one": ("gemma", "gemma", {"head_dim": 8}, {"attention.key_length": 8}, gemma),
    "experts": (
        "qwen3moe", "qwen3_moe", {**MOE, "num_experts": 4, "head_dim": 8, "norm_topk_prob": True},
        {**MOE_VALUES, "attention.key_length": 8}, experts,
    ),
    "turns": (
        "gpt-oss", "gpt_oss",
        {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 16, "head_dim": 8,
         "sliding_window": 8},
        {**MOE_VALUES, "attention.key_length": 8, "attention.sliding_window": 8, "rope.freq_base": 150000.0,
         "rope.scaling.type": "yarn", "rope.scaling.factor": 32.0, "rope.scaling.original_context_length": 4096,
         "attention.layer_norm_rms_epsilon": 1e-5}, turns,
    ),
    "latent": (
        "deepseek2", "deepseek_v3",
        {**MOE, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
         "first_k_dense_replace": 1,
         "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
         "head_dim": 8, "num_key_value_heads": 4, "rms_norm_eps": 1e-6},
        {**MOE_VALUES, "expert_shared_count": 1, "expert_group_count": 1, "expert_group_used_count": 1,
         "leading_dense_block_count": 1, "attention.q_lora_rank": 16, "attention.kv_lora_rank": 16,
         "attention.key_length": 24, "attention.value_length": 16, "attention.key_length_mla": 16,
         "attention.value_length_mla": 8, "rope.dimension_count": 8, "attention.head_count_kv": 1,
         "expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": 2.5}, latent,
    ),
    "fused": (
        "gptneox", "gpt_neox",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
        {"rope.dimension_count": 4, "use_parallel_residual": True, "attention.layer_norm_epsilon": 1e-5}, fused,
    ),
    "recurrent": (
        "mamba2", "mamba2", {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "expand": 2},
        {"ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 8, "ssm.time_step_rank": 8,
         "ssm.group_count": 2,
         "attention.layer_norm_rms_epsilon": 1e-5}, recurrent,
    ),
}  # fmt: skip


def random_model(kind: str, more: Mapping[str, Any]) -> PreTrainedModel:
    usual = CONFIG_MAPPING[kind]()
    sizes = {name: value for name, value in SIZES.items() if hasattr(usual, name)}
    config = CONFIG_MAPPING[kind](**{**sizes, **more})
    torch.manual_seed(0)
    model: PreTrainedModel = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)](config).float().eval()
    with torch.no_grad():
        for weight in model.state_dict().values():
            weight.copy_(torch.randn_like(weight) * 0.3)
    return model


def read(file: Path) -> PreTrainedModel:
    config = config_of(read_gguf_header(file))
    config.save_pretrained(file.parent)
    again = AutoConfig.from_pretrained(file.parent)
    return read_weights(ModelFolder(file.parent, name="tiny", gguf=file), again, torch.float32, {}).eval()


@pytest.mark.parametrize("name", CASES)
def test_a_file_gives_the_logits_of_the_model_it_was_made_from(name: str, tmp_path: Path) -> None:
    architecture, kind, config, values, store = CASES[name]
    model = random_model(kind, config)
    file = write_tensors(tmp_path / "x.gguf", architecture, {**VALUES, **values}, store(model.state_dict()))
    ids = torch.arange(3, 67)[None] % 96
    with torch.no_grad():
        wanted, found = model(ids).logits, read(file)(ids).logits
    assert torch.allclose(found, wanted, atol=1e-4 * float(wanted.abs().max()), rtol=0)


def test_a_model_in_several_files_is_read_as_one(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf")
    parts = split_gguf(whole, tmp_path, 3)
    for name, weight in read(whole).state_dict().items():
        assert torch.equal(read(parts[0]).state_dict()[name], weight)


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        (
            {"blk.0.attn_extra.weight": torch.ones(4)},
            "its tensor blk.0.attn_extra.weight is not known in a model of",
        ),
        (
            {"blk.0.attn_q.weight": torch.ones(16, 32)},
            r"blk.0.attn_q.weight has the shape \(16, 32\), which does not",
        ),
    ],
)
def test_a_file_that_is_another_model_is_refused(tensors: Stored, sentence: str, tmp_path: Path) -> None:
    stored = {**llama(random_model("llama", {}).state_dict()), **tensors}
    file = write_tensors(tmp_path / "x.gguf", "llama", VALUES, stored)
    with pytest.raises(ValueError, match=sentence):
        read(file)


def test_layers_that_only_draft_are_left_out(tmp_path: Path) -> None:
    stored = llama(random_model("llama", {}).state_dict())
    extra = {"blk.2.attn_norm.weight": torch.ones(32), "blk.2.nextn.eh_proj.weight": torch.ones(32, 64)}
    values = {**VALUES, "block_count": 3, "nextn_predict_layers": 1}
    file = write_tensors(tmp_path / "x.gguf", "llama", values, {**stored, **extra})
    assert read(file).config.num_hidden_layers == 2


def test_keys_and_values_of_layers_that_share_them_are_left_out(tmp_path: Path) -> None:
    kinds = ["sliding_attention", "full_attention"] * 2
    config = {"num_hidden_layers": 4, "layer_types": kinds, "num_kv_shared_layers": 2, "head_dim": 8}
    model = random_model("gemma4_text", {**config, "hidden_size_per_layer_input": 0, "sliding_window": 8})
    tensors = {
        f"blk.{layer}.attn_{one}.weight": torch.ones(4, 4) for layer in (2, 3) for one in ("k", "v", "k_norm")
    }
    header = read_gguf_header(write_tensors(tmp_path / "x.gguf", "gemma4", VALUES, tensors))
    assert not stored_weights(header, model, torch.float32, {})
    model.config.num_kv_shared_layers = 1
    with pytest.raises(ValueError, match=r"blk\.2\.attn_k\.weight is not known"):
        stored_weights(header, model, torch.float32, {})


def test_a_large_tensor_is_read_in_the_models_type(tmp_path: Path) -> None:
    tensors = {"token_embd.weight": torch.randn(SMALL // 32 + 1, 32), "output_norm.weight": torch.randn(32)}
    file = write_tensors(tmp_path / "x.gguf", "llama", VALUES, tensors)
    large, small = (read_tensor(tensor, torch.bfloat16) for tensor in read_gguf_header(file).tensors)
    assert torch.equal(large, tensors["token_embd.weight"].bfloat16()) and small.dtype == torch.float32


def test_weights_are_read_only_when_they_are_asked_for(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "x.gguf")
    header = read_gguf_header(file)
    config = config_of(header)
    model = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)](config)
    weights = stored_weights(header, model, torch.float32, {})
    file.unlink()
    with pytest.raises(FileNotFoundError):
        weights["model.norm.weight"][...]
