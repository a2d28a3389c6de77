"""Checks GGUF files, such as those of LM Studio, Ollama and llama.cpp, and reads their models' sizes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.errors import ModelBroken
from app.models_registry.files.model_files import EMPTY_END, is_end_empty, refuse_pointer
from app.settings import assets_dir
from app.values.gguf_architectures import ARCHITECTURES
from app.values.gguf_header import (
    EMBEDDING,
    HEAD,
    GgufHeader,
    is_gguf,
    parts_of,
    read_gguf_header,
    read_gguf_part,
)
from app.values.gguf_words import check_vocabulary

SUFFIX = ".gguf"
ENCODERS = (
    "bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "neo-bert", "t5encoder", "t5",
)  # fmt: skip
PROJECTORS = ("clip", "mmproj")
CONFIG_KEYS = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "full_attention_interval": "full_attention_interval",
    "mamba_d_ssm": "ssm.inner_size",
    "mamba_d_state": "ssm.state_size",
}
"""Keys of a config.json, and the corresponding keys of a GGUF file."""
NAMES = {EMBEDDING: "embed_tokens.weight", HEAD: "lm_head.weight"}
"""Tensors that are counted separately, by their names in a GGUF file and in transformers."""


def check_gguf(path: Path, name: str) -> None:
    """Raise ModelBroken, with advice, if this GGUF file and the other files of its model cannot be loaded."""
    parts = parts_of(path)
    if missing := [part for part in parts if not part.exists()]:
        are = "is" if len(missing) == 1 else "are"
        raise ModelBroken(
            f"{path} is one of {len(parts)} files of a model, and {len(missing)} of them {are} missing: get all of "
            f"them into this folder (the first that is missing is {missing[0].name})."
        )
    header = _header(path, name)
    if header.values.get("split.count", 0) not in (0, 1, len(parts)):
        raise ModelBroken(
            f"{path} is one part of a model in several files: give the files names that end in "
            "-00001-of-00003.gguf and so on."
        )
    check_kind(header, name)
    for part in parts:
        actual, stored = part.stat().st_size, read_gguf_part(part)
        if actual < stored.size:
            raise _damaged(part, f"it has {actual:,} bytes and its header promises {stored.size:,}")
        if is_end_empty(part, ((one.begin, len(one.shape)) for one in stored.tensors)):
            raise _damaged(part, EMPTY_END)


def check_kind(header: GgufHeader, name: str) -> None:
    """Raise ModelBroken if this is not a text model with an architecture and a vocabulary that can be read."""
    known, kind = header.architecture, header.values.get("general.type")
    problem = ""
    if known in PROJECTORS or kind == "mmproj":
        problem = f"{name} holds only the image part of a model: choose the file of the text model beside it."
    elif known in ENCODERS or header.value("pooling_type"):
        problem = f"{name} is an embedding model ({known}), which writes no text: choose a chat model."
    elif kind == "adapter":
        problem = f"{name} is an adapter: merge it into its base model first, or choose the base model."
    elif not known:
        problem = f"{name} does not name its architecture: choose another file of the same model."
    elif known not in ARCHITECTURES:
        problem = (
            f"{name} has the architecture {known!r}, which this version of Foresight does not "
            "know in GGUF files: choose the same model in safetensors, or another one, or update Foresight."
        )
    if problem:
        raise ModelBroken(problem)
    check_vocabulary(header.values, name, assets_dir())


def gguf_config(path: Path, name: str) -> dict[str, Any]:
    """Return the sizes of the model in this file, by the keys of a config.json. Raises ModelBroken."""
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
    """Yield the name, the stored type and the shape of each tensor of this file's model. Raises ModelBroken."""
    for tensor in _header(path, name).tensors:
        # Renamed, because attn_output.weight would be taken for the head.
        known = NAMES.get(tensor.name, tensor.name.replace("attn_output.", "o_proj."))
        yield known, tensor.stored, tensor.shape


def gguf_files(folder: Path, depth: int = 0) -> list[Path]:
    """Return the GGUF models in a folder and `depth` levels below it, a split model by its first existing file."""
    found = (path for level in range(depth + 1) for path in folder.glob("*/" * level + "*" + SUFFIX))
    return sorted(path for path in found if _is_model(path))


def _is_model(path: Path) -> bool:
    if path.name.lower().startswith("mmproj") or not path.is_file():
        return False
    return path == next((part for part in parts_of(path) if part.exists()), path)


def _header(path: Path, name: str) -> GgufHeader:
    try:
        if not is_gguf(path):
            refuse_pointer(path)
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
