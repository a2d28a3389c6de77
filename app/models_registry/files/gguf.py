"""Models in a single GGUF file, as LM Studio, Ollama and llama.cpp keep them: checks and sizes.

transformers reads these files for the architectures listed here. A part of a split file cannot be read alone.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.errors import ModelBroken
from app.values.gguf_header import GgufHeader, is_gguf, read_gguf_header

SUFFIX = ".gguf"
READABLE = (
    "falcon", "gemma2", "gemma3", "gemma4", "gpt2", "lfm2", "llama", "mamba", "minimax-m2", "mistral",
    "nemotron", "phi3", "qwen2", "qwen2moe", "qwen3", "qwen35", "qwen35moe", "qwen3moe", "stablelm", "starcoder2",
)  # fmt: skip
"""Architectures of text models that transformers reads from GGUF files, as llama.cpp calls them."""
ENCODERS = (
    "bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "neo-bert", "t5encoder", "t5",
)  # fmt: skip
PROJECTORS = ("clip", "mmproj")
ONE_FILE = (
    "transformers reads a GGUF model from one file: join the parts with llama-gguf-split --merge, and choose the "
    "joined file."
)
PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
"""The names that llama.cpp gives to the parts of a split file."""
CONFIG_KEYS = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "attn_logit_softcapping": "attn_logit_softcapping",
}
"""Keys of a config.json, and the corresponding keys of a GGUF file."""
EMBEDDING, HEAD = "token_embd.weight", "output.weight"
NAMES = {EMBEDDING: "embed_tokens.weight", HEAD: "lm_head.weight"}
"""Tensors that are counted separately, by their names in a GGUF file and in transformers."""


def check_gguf(path: Path, name: str) -> None:
    """Raise ModelBroken, with advice, if this GGUF file cannot be loaded."""
    if PART.fullmatch(path.name):
        raise ModelBroken(_in_parts(path))
    header = _header(path, name)
    if header.values.get("split.count", 0) not in (0, 1):
        raise ModelBroken(f"{path} is one part of a model in several files. {ONE_FILE}")
    check_kind(header, name)
    actual = path.stat().st_size
    if actual < header.size:
        raise _damaged(path, f"it has {actual:,} bytes and its header promises {header.size:,}")


def check_kind(header: GgufHeader, name: str) -> None:
    """Raise ModelBroken if this is not a text model that transformers can read."""
    known, kind = header.architecture, header.values.get("general.type")
    problem = ""
    if known in PROJECTORS or kind == "mmproj":
        problem = f"{name} holds only the image part of a model: choose the file of the text model beside it."
    elif known in ENCODERS or header.value("pooling_type"):
        problem = f"{name} is an embedding model ({known}), which writes no text: choose a chat model."
    elif kind == "adapter":
        problem = f"{name} is an adapter: merge it into its base model first, or choose the base model."
    elif known not in READABLE:
        problem = (
            f"{name} has the architecture {known or 'without a name'!r}, which cannot be read from GGUF files: "
            "choose the same model in safetensors, or another one."
        )
    if problem:
        raise ModelBroken(problem)


def gguf_config(path: Path, name: str) -> dict[str, Any]:
    """Return the sizes of the model in this file, by the keys of a config.json."""
    header = _header(path, name)
    values = {key: header.value(known) for key, known in CONFIG_KEYS.items()}
    # If a value differs by layer, the largest is taken.
    sizes = {key: max(one, default=None) if isinstance(one, list) else one for key, one in values.items()}
    stored = {tensor.name: tensor.shape for tensor in header.tensors}
    return {
        **{key: value for key, value in sizes.items() if value is not None},
        "model_type": header.architecture,
        "vocab_size": stored.get(EMBEDDING, (0,))[0],
        "tie_word_embeddings": HEAD not in stored,
    }


def gguf_tensors(path: Path, name: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield the name, the stored type and the shape of each tensor in this file."""
    for tensor in _header(path, name).tensors:
        # Renamed, because attn_output.weight would be taken for the head.
        known = NAMES.get(tensor.name, tensor.name.replace("attn_output.", "o_proj."))
        yield known, tensor.stored, tensor.shape


def gguf_files(folder: Path, depth: int = 0) -> list[Path]:
    """Return the GGUF models in a folder and in `depth` levels below it; for a split model, its first file."""
    found = (path for level in range(depth + 1) for path in folder.glob("*/" * level + "*" + SUFFIX))
    return sorted(path for path in found if _is_model(path))


def _is_model(path: Path) -> bool:
    if path.name.lower().startswith("mmproj") or not path.is_file():
        return False
    part = PART.fullmatch(path.name)
    return part is None or path == min(_parts(path), default=path)


def _parts(path: Path) -> list[Path]:
    """Return the parts of a split file that exist in its folder."""
    own = PART.fullmatch(path.name)
    found = ((other, PART.fullmatch(other.name)) for other in path.parent.iterdir())
    return [other for other, part in found if own and part and part.group(1, 3) == own.group(1, 3)]


def _in_parts(path: Path) -> str:
    part = PART.fullmatch(path.name)
    assert part
    here = {int(match[2]) for one in _parts(path) if (match := PART.fullmatch(one.name))}
    count = int(part[3])
    missing = count - len(here & set(range(1, count + 1)))
    which = f"{path} is part {int(part[2])} of a model in {count} files"
    if missing:
        are = "is" if missing == 1 else "are"
        return f"{which}, and {missing} of them {are} missing: get all of them. {ONE_FILE}"
    return f"{which}. {ONE_FILE}"


def _header(path: Path, name: str) -> GgufHeader:
    try:
        if not is_gguf(path):
            raise ModelBroken(
                f"{path} is not a GGUF file: choose one that llama.cpp can read, or a folder with a model."
            )
        return read_gguf_header(path)
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    except OSError as error:
        raise ModelBroken(
            f"{name} cannot be read ({error.strerror}): check the file's permissions."
        ) from error


def _damaged(path: Path, how: str) -> ModelBroken:
    return ModelBroken(f"{path} is damaged: {how}. Download it again with the program that it came from.")
