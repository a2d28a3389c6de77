"""The architectures of GGUF files that transformers can build, with a line of special rules for each.

General rules are in engine/text/gguf_config.py and engine/loading/gguf_weights.py. A line has what they do not
cover: values that llama.cpp has in its code and not in the file, and how its converter changed tensors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Change = Literal[
    "pairs", "minus one", "log", "transposed", "alternating", "grouped", "tiled values", "tiled columns", "mixed"
]  # fmt: skip
"""How llama.cpp's converter has changed a tensor, so that it differs from the tensor of transformers.

pairs: the rows of the two halves of each head were interleaved, so that rows that are rotated together are a pair.
minus one: one was added, which is subtracted again. log: A_log became -exp(A_log). transposed: rows became columns.
alternating: rows of gates and of values, which had been interleaved, were separated, and the experts' matrices were
transposed. grouped: rows of queries, keys and values, which had been together in groups, were separated. tiled:
value heads of linear attention, which had been sorted by key head, were sorted by their number within the key head.
mixed: rows of queries, keys, values and gates, which had been together for each key head of linear attention, were
separated."""


@dataclass(frozen=True, slots=True)
class GgufArchitecture:
    """An architecture of GGUF files: its name in transformers, fixed values of its config, and changed tensors.

    `changes` maps regular expressions, which are searched in the names of the file's tensors, to changes.
    `recurrent` is transformers' word for its layers without attention."""

    model_type: str
    config: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Change] = field(default_factory=dict)
    recurrent: str = "linear_attention"


_PAIRS: Mapping[str, Change] = {r"attn_[qk]\.": "pairs"}
_MINUS_ONE: Mapping[str, Change] = {r"norm\.weight": "minus one"}
_LOG: Mapping[str, Change] = {r"ssm_a$": "log"}
_LINEAR: Mapping[str, Change] = {r"(?<!ssm_)norm\.weight": "minus one", **_LOG}
_TILED: Mapping[str, Change] = {
    **_LINEAR,
    r"attn_qkv|attn_gate|ssm_alpha|ssm_beta|ssm_a$|ssm_dt|ssm_conv1d": "tiled values",
    r"ssm_out": "tiled columns",
}
_one = GgufArchitecture

ARCHITECTURES: Mapping[str, GgufArchitecture] = {
    "afmoe": _one("afmoe", {"mup_enabled": True}),
    "apertus": _one("apertus"),
    "arcee": _one("arcee", changes=_PAIRS),
    "bitnet": _one("bitnet", {"hidden_act": "silu"}),
    "bloom": _one("bloom", changes={r"attn_qkv\.": "grouped"}),
    "chatglm": _one("glm"),
    "cohere2": _one("cohere2"),
    "cohere2moe": _one("cohere2_moe"),
    "command-r": _one("cohere"),
    "deepseek2": _one("deepseek_v3"),
    "dots1": _one("dots1"),
    "ernie4_5": _one("ernie4_5"),
    "ernie4_5-moe": _one("ernie4_5_moe"),
    "exaone": _one("llama"),
    "exaone-moe": _one("exaone_moe"),
    "exaone4": _one("exaone4"),
    "falcon": _one("falcon", changes={r"attn_qkv\.": "grouped"}),
    "falcon-h1": _one("falcon_h1", {"mamba_norm_before_gate": False}, _LOG),
    "gemma": _one("gemma", changes=_MINUS_ONE),
    "gemma2": _one("gemma2", changes=_MINUS_ONE),
    "gemma3": _one("gemma3_text", changes=_MINUS_ONE),
    "gemma3n": _one("gemma3n_text"),
    "gemma4": _one("gemma4_text", {"final_logit_softcapping": 30.0}),
    "glm-dsa": _one("glm_moe_dsa"),
    "glm4": _one("glm4"),
    "glm4moe": _one("glm4_moe"),
    "gpt-oss": _one(
        "gpt_oss", changes={r"ffn_gate_up_exps": "alternating", r"ffn_down_exps\.weight": "transposed"}
    ),
    "gpt2": _one("gpt2", changes={r"(attn_qkv|attn_output|ffn_up|ffn_down)\.weight": "transposed"}),
    "gptneox": _one("gpt_neox", changes={r"attn_qkv\.": "grouped"}),
    "granite": _one("granite", changes=_PAIRS),
    "granitehybrid": _one("granitemoehybrid", changes={**_PAIRS, **_LOG}),
    "granitemoe": _one("granitemoeshared", changes=_PAIRS),
    "hunyuan-dense": _one("hunyuan_v1_dense"),
    "hunyuan-moe": _one("hunyuan_v1_moe"),
    "hy_v3": _one("hy_v3"),
    "internlm2": _one("llama", changes=_PAIRS),
    "jais2": _one("jais2"),
    "jamba": _one("jamba", changes=_LOG, recurrent=""),
    "lfm2": _one("lfm2", {"block_auto_adjust_ff_dim": False}, recurrent="conv"),
    "lfm2moe": _one("lfm2_moe", recurrent="conv"),
    "llama": _one("llama", changes=_PAIRS),
    "llama4": _one("llama4_text", changes={r"_exps": "transposed"}),
    "mamba": _one("mamba", changes=_LOG),
    "mamba2": _one("mamba2", changes=_LOG),
    "mellum": _one("mellum"),
    "minimax-m2": _one("minimax_m2"),
    "mistral3": _one("ministral3", changes=_PAIRS),
    "mpt": _one("mpt"),
    "nemotron": _one("nemotron", changes=_MINUS_ONE),
    "nemotron_h": _one("nemotron_h", changes=_LOG),
    "nemotron_h_moe": _one("nemotron_h", changes=_LOG),
    "olmo": _one("olmo", changes=_PAIRS),
    "olmo2": _one("olmo2"),
    "olmoe": _one("olmoe"),
    "phi2": _one("phi"),
    "phi3": _one("phi3"),
    "phimoe": _one("phimoe"),
    "qwen2": _one("qwen2"),
    "qwen2moe": _one("qwen2_moe"),
    "qwen2vl": _one("qwen2"),
    "qwen3": _one("qwen3"),
    "qwen35": _one("qwen3_5_text", changes=_TILED),
    "qwen35moe": _one("qwen3_5_moe_text", changes=_TILED),
    "qwen3moe": _one("qwen3_moe", {"norm_topk_prob": True}),
    "qwen3next": _one("qwen3_next", changes={**_LINEAR, "attn_qkvz": "mixed"}),
    "qwen3vl": _one("qwen3"),
    "qwen3vlmoe": _one("qwen3_moe", {"norm_topk_prob": True}),
    "seed_oss": _one("seed_oss"),
    "smollm3": _one("smollm3", changes=_PAIRS),
    "stablelm": _one("stablelm"),
    "starcoder": _one("gpt_bigcode"),
    "starcoder2": _one("starcoder2"),
    "xverse": _one("llama", changes=_PAIRS),
}
