"""Which files make up a model, judged by their names alone: the same rules for a folder and for the hub."""

from collections.abc import Iterable
from fnmatch import fnmatch

from app.errors import ModelBroken, ModelUnsafe

CONFIG = "config.json"
WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARDS = "model-*-of-*.safetensors"
MODULES = "modules.json"
POOLING = "1_Pooling/config.json"
"""How a sentence-embedding model makes one vector of many: the one file that does not lie at the top."""
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")
TEXTS = (
    *TOKENIZERS,
    CONFIG,
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "chat_template.*",
    MODULES,  # these two of sentence-embedding models
    "sentence_bert_config.json",
)
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")


def needed(names: Iterable[str]) -> list[str]:
    """Those of a repository's files that a model is loaded from: no pickles, no code, no second copies.

    Where whole weights and shards are both there, transformers reads the whole ones, and so do we."""
    names = list(names)
    weights = (WHOLE,) if WHOLE in names else (INDEX, SHARDS)
    pooling = [POOLING] if MODULES in names and POOLING in names else []
    return [*_matching(names, (*TEXTS, *weights)), *pooling]


def require_model(names: Iterable[str], where: str) -> None:
    """Raise a ModelError that says what is wrong when these files cannot be a model; `where` names them."""
    names = list(names)
    if CONFIG not in names:
        raise ModelBroken(f"{where} is no model: it has no {CONFIG}. {_other_kind(names)}")
    if WHOLE in names or INDEX in names:
        return
    if _matching(names, PICKLES):
        raise ModelUnsafe(
            f"{where} has only pickled weights, which can run code when they are opened: "
            "choose a model with safetensors files, or convert this one to safetensors."
        )
    raise ModelBroken(f"{where} has no {WHOLE} and no {INDEX}. {_other_kind(names)}")


def has_tokenizer(names: Iterable[str]) -> bool:
    """Whether any of these files can be a tokenizer."""
    return any(name in TOKENIZERS for name in names)


def _other_kind(names: list[str]) -> str:
    if "adapter_config.json" in names:
        return "It is an adapter: merge it into its base model first, or choose the base model."
    if _matching(names, ("*.gguf",)):
        return "GGUF files are for llama.cpp: choose the same model in safetensors."
    return "Choose a folder or a hub model with config.json, a tokenizer and safetensors weights."


def _matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    # fnmatch's * also matches slashes; these files lie at the top of their repository.
    patterns = list(patterns)
    return [name for name in names if "/" not in name and any(fnmatch(name, p) for p in patterns)]
