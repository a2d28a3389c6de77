"""A report so small that a CPU writes it in seconds: every section, each with one tiny shape."""

from dataclasses import replace
from pathlib import Path

import torch

from app.engine.gpu_report.plan import LayerCase, Plan, ReplySet
from app.engine.gpu_report.shapes import HeadShape, ModelShape

HEADS = HeadShape("tiny", 4, 2, 16)
SHAPE = ModelShape(
    "tiny",
    {
        "model_type": "llama",
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "tie_word_embeddings": False,
    },
)
CASES = (
    LayerCase(HEADS, 5, 4),
    LayerCase(HEADS, 5, 4, torch.float32, window=3, has_sinks=True),
    LayerCase(HEADS, 0, 2, torch.float16, softcap=2.0),
)
PLAN = Plan(
    device="cpu",
    models=(SHAPE,),
    heads=(HEADS,),
    cases=CASES,
    ends=(9,),
    prefixes=(16, 40),
    attention_rows=(1, 2),
    judged_rows=2,
    is_flex_compiled=False,
    samples=2,
    context=32,
    step_rows=(1, 64, 128),
    rounds=2,
    tokens=8,
    reply_tokens=8,
    quantised=SHAPE,
    soak_seconds=0.1,
    soak_words=(2, 40),
)


def with_model(folder: Path) -> Plan:
    """The plan with a trained model, as it were."""
    return replace(PLAN, replies=(ReplySet("trained", folder, ("Hello", "What?")),), soak_folders=(folder,))
