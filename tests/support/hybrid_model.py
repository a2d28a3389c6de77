"""A random hybrid model (gated delta nets and full attention) as a folder."""

import shutil
from pathlib import Path

import torch
from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

from app.settings import assets_dir


def make_model(folder: Path, hidden: int, layers: int, spread: float) -> None:
    """Save a random hybrid with the demo model's tokenizer."""
    torch.manual_seed(0)
    config = Qwen3NextConfig(
        vocab_size=4096,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=64,
        linear_num_value_heads=8,
        linear_num_key_heads=4,
        linear_key_head_dim=64,
        linear_value_head_dim=64,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=hidden,
        shared_expert_intermediate_size=hidden,
        max_position_embeddings=4096,
        initializer_range=spread,
    )
    Qwen3NextForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(assets_dir() / "demo-model" / name, folder / name)
