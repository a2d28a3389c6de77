"""The plan of a report: the device, model shapes, row counts, contexts, and trained models."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from app.engine.attention.backend_choice import HeadShape
from app.settings import assets_dir
from app.values.messages import DType

Row = dict[str, str | int | float]
"""One measurement: the columns of a table by name."""

_LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
_QWEN3 = {"model_type": "qwen3", "vocab_size": 151_936, "num_key_value_heads": 8, "head_dim": 128}
SHAPES: dict[str, dict[str, Any]] = {
    "llama-2-7b": {
        **_LLAMA, "vocab_size": 32_000, "intermediate_size": 11_008, "num_key_value_heads": 32,
        "max_position_embeddings": 4096,
    },
    "llama-3.1-8b": {
        **_LLAMA, "vocab_size": 128_256, "intermediate_size": 14_336, "num_key_value_heads": 8,
        "max_position_embeddings": 131_072,
    },
    "qwen3-0.6b": {
        **_QWEN3, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
        "num_attention_heads": 16, "tie_word_embeddings": True,
    },
}  # fmt: skip
"""Configs of models that are made with random weights."""
TINY: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 128, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip


def _heads() -> dict[str, HeadShape]:
    return {
        "llama-2-7b": HeadShape(32, 32, 128, torch.bfloat16),
        "llama-3.1-8b": HeadShape(32, 8, 128, torch.bfloat16),
        "qwen3-0.6b": HeadShape(16, 8, 128, torch.bfloat16),
        "float32": HeadShape(8, 4, 64, torch.float32),
    }


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a report. The defaults suit one large GPU; `tiny_plan` suits a CPU."""

    device: str = "cuda"
    dtype: DType = "bfloat16"
    shapes: dict[str, dict[str, Any]] = field(default_factory=lambda: SHAPES)
    quantised_shape: str = "llama-3.1-8b"
    heads: dict[str, HeadShape] = field(default_factory=_heads)
    prefixes: tuple[int, ...] = (257, 4096, 32_768)
    attention_rows: tuple[int, ...] = (1, 16, 64, 128)
    context: int = 1024
    step_rows: tuple[int, ...] = (1, 8, 16, 32, 64, 96, 128)
    kernel_rows: tuple[int, ...] = (1, 64)
    prompt_lengths: tuple[int, ...] = (1000, 8000, 32_000)
    copied: int = 2**31  # bytes, several times the size of a GPU's caches
    models: tuple[Path, ...] = field(default_factory=lambda: trained_models())
    reply_dtypes: tuple[DType, ...] = ("float32", "bfloat16")
    prompts: int = 20
    reply_tokens: int = 128
    seconds: float = 0.5  # how long each timing may take

    @property
    def torch_device(self) -> torch.device:
        return torch.device(self.device)

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype


def tiny_plan() -> Plan:
    """Return a plan without models for replies, with which all sections take seconds on a CPU."""
    return Plan(
        device="cpu", shapes={"tiny": TINY}, quantised_shape="tiny",
        heads={"tiny": HeadShape(4, 2, 16, torch.float32)}, prefixes=(9,), attention_rows=(3,), context=8,
        step_rows=(1, 2), kernel_rows=(1, 2), prompt_lengths=(9,), copied=2**16, models=(),
        reply_dtypes=("float32",), prompts=1, reply_tokens=8, seconds=0.001,
    )  # fmt: skip


def trained_models() -> tuple[Path, ...]:
    """Return the demo model, and stories260K if it is beside the checkout."""
    assets = assets_dir()
    stories = assets.parent.parent / "shared" / "models" / "stories260K"
    return tuple(path for path in (assets / "demo-model", stories) if path.is_dir())
