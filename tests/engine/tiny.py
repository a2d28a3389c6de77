"""A tiny random Llama on disk, with the demo model's tokenizer: loads in a moment by the code a user runs."""

import shutil
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from app.settings import assets_dir
from app.values.messages import ModelFolder

DEMO = assets_dir() / "demo-model"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
STORIES = Path(__file__).parents[3] / "shared" / "models" / "stories260K"
"""A real trained model, beside the checkout where it is there at all."""


def tiny_config(
    vocabulary: int = 4096, context: int = 256, hidden: int = 32, intermediate: int = 48
) -> LlamaConfig:
    """Two layers with two query heads for each key head."""
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        bos_token_id=0,
        eos_token_id=2,
        pad_token_id=0,
    )


def write_tiny(folder: Path, vocabulary: int = 4096, context: int = 256, seed: int = 0) -> ModelFolder:
    """Save a tiny model in a folder. A vocabulary below 4096 cannot read every prompt."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(tiny_config(vocabulary, context))
    for parameter in model.parameters():
        # Larger weights than a trained model's: its text is then varied enough to be compared.
        parameter.data *= 3.0
    model.save_pretrained(folder)
    return with_tokenizer(folder)


def with_tokenizer(folder: Path) -> ModelFolder:
    """Put the demo model's tokenizer into a folder."""
    for name in TOKENIZER_FILES:
        shutil.copy(DEMO / name, folder / name)
    return ModelFolder(folder, name=folder.name)
