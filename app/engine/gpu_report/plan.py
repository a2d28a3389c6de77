"""What a report measures: shapes, rows, prefixes, how often, and how long at most."""

from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path

import torch

from app.engine.attention import Scoring
from app.engine.gpu_report.shapes import LLAMA_2_7B, LLAMA_31_8B, QWEN3_06B, QWEN3_4B, HeadShape, ModelShape
from app.messages import AttentionChoice, DType, Prompt

LLAMA_2_HEADS = HeadShape("llama-2-7b", 32, 32, 128)
LLAMA_3_HEADS = HeadShape("llama-3.1-8b", 32, 8, 128)
QWEN3_HEADS = HeadShape("qwen3-0.6b", 16, 8, 128)


@dataclass(frozen=True, slots=True)
class LayerCase:
    """One layer's work that is held to float64: a tree of `rows` behind a prefix."""

    heads: HeadShape
    prefix: int
    rows: int
    dtype: torch.dtype = torch.bfloat16
    window: int = 0
    softcap: float | None = None
    has_sinks: bool = False

    @property
    def scale(self) -> float:
        """A little sharper than a model's, so that single keys count."""
        return 1.6 / sqrt(self.heads.size)

    def scoring(self, sinks: torch.Tensor | None) -> Scoring:
        """How it weighs keys."""
        return Scoring(self.scale, self.window, self.softcap, sinks)


@dataclass(frozen=True, slots=True)
class ReplySet:
    """A trained model on this machine, and what it is asked."""

    name: str
    folder: Path
    prompts: tuple[Prompt, ...]


def _cases() -> tuple[LayerCase, ...]:
    """The likeliest work first, for compiling kernels takes time."""
    usual = [
        LayerCase(heads, prefix, rows)
        for heads in (LLAMA_2_HEADS, LLAMA_3_HEADS, QWEN3_HEADS)
        for prefix in (0, 1, 257, 4096)
        for rows in (1, 64)
    ]
    types = [LayerCase(LLAMA_3_HEADS, 257, 64, dtype) for dtype in (torch.float16, torch.float32)]
    small, large = HeadShape("heads of 64", 8, 4, 64), HeadShape("heads of 256", 8, 4, 256)
    special = [
        LayerCase(LLAMA_3_HEADS, 4096, 64, window=128),
        LayerCase(LLAMA_3_HEADS, 32_768, 128),
        LayerCase(small, 513, 64),
        LayerCase(large, 255, 64),
        LayerCase(small, 300, 16, window=20, has_sinks=True),
        LayerCase(large, 300, 16, softcap=2.0),
    ]
    return (*usual, *types, *special)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole report. As it stands it is that of one large card; tests make it tiny and run it on a CPU."""

    device: str = "cuda"
    dtype: DType = "bfloat16"
    models: tuple[ModelShape, ...] = (LLAMA_2_7B, LLAMA_31_8B, QWEN3_06B, QWEN3_4B)
    heads: tuple[HeadShape, ...] = (LLAMA_2_HEADS, LLAMA_3_HEADS, QWEN3_HEADS)
    backends: tuple[AttentionChoice, ...] = ("sdpa", "triton", "flash")
    cases: tuple[LayerCase, ...] = field(default_factory=_cases)
    ends: tuple[int, ...] = (9, 290, 2100)  # of the texts whose rows are compared bit by bit
    prefixes: tuple[int, ...] = (512, 4096, 32_768)
    attention_rows: tuple[int, ...] = (1, 16, 64, 128)
    judged_rows: int = 64  # at which attention is compared
    is_flex_compiled: bool = True
    samples: int = 30
    context: int = 1024
    step_rows: tuple[int, ...] = (1, 8, 16, 32, 64, 96, 128)
    rounds: int = 20
    tokens: int = 48  # that decoders write where their steps are timed
    replies: tuple[ReplySet, ...] = ()
    reply_tokens: int = 256
    quantised: ModelShape = QWEN3_4B
    soak_folders: tuple[Path, ...] = ()
    soak_seconds: float = 30.0
    soak_words: tuple[int, ...] = (20, 150, 600)  # of prompts, so that the cache grows
    seconds: float = 455.0  # for everything; a section's last finding may take a little longer

    def __post_init__(self) -> None:
        if not self.models or 1 not in self.step_rows or self.seconds <= 0:
            raise ValueError(f"a plan needs models, steps of one row and time, got {self}")

    @property
    def torch_dtype(self) -> torch.dtype:
        """What weights, queries and caches are made of."""
        return {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(self.dtype, torch.float32)
