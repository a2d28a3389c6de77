"""The process that writes a GGUF file's config, tokenizer and chat template as files of a model's folder.

transformers reads the config, `gguf_tokenizer.py` the vocabulary. The file is not trusted, so the process limits
its memory, and the app its time.
"""

import json
from pathlib import Path
from typing import Any

from app.engine.machine.memory import address_space
from app.errors import first_line
from app.system.child_process import limit_memory, serve_each
from app.values.gguf_header import read_gguf_values

MEMORY = 4 * 2**30
"""Bytes of address space that reading may take, in addition to the libraries and the mapped file."""


def main() -> None:
    """Answer jobs until the app ends."""
    serve_each(_answer)


def _answer(line: bytes) -> bytes:
    job: dict[str, Any] = json.loads(line)
    refused = unknown = ""
    try:
        unknown = _convert(Path(job.pop("file")), Path(job.pop("target")), **job)
    except (MemoryError, RecursionError):
        refused = "it takes too much memory"
    except BaseException as error:  # a panic of the tokenizer's Rust code is not an Exception
        refused = first_line(error)[:200].rstrip(".:") or type(error).__name__
    return json.dumps({"refused": refused, "unknown": unknown}).encode() + b"\n"


def _convert(file: Path, target: Path, head_size: int, frequencies: int) -> str:
    """Write the folder; return the kind of the vocabulary if it is an unknown one, or ""."""
    import gguf  # noqa: F401 - everything is imported before the memory is limited
    from transformers import AutoConfig

    from app.engine.text.gguf_tokenizer import UnknownVocabulary, Vocabulary, end_tokens, write_tokenizer

    limit_memory(address_space() + file.stat().st_size + MEMORY)
    vocabulary = Vocabulary(read_gguf_values(file))
    try:
        write_tokenizer(vocabulary, target)
    except UnknownVocabulary as error:
        return str(error)
    config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
    if known := end_tokens(vocabulary):
        config.eos_token_id = known if len(known) > 1 else known[0]
    if head_size and hasattr(config, "head_dim"):
        config.head_dim = head_size  # transformers leaves it out for some architectures
    if frequencies:
        config.rope_parameters = _llama3_rope(config, file, frequencies)
    config.name_or_path = ""
    config.save_pretrained(target)
    return ""


def _llama3_rope(config: Any, file: Path, begin: int) -> dict[str, Any]:
    """Return the rotary parameters of Llama 3.1 and later from a GGUF file, which has only their resulting
    factors.

    transformers ignores these factors, one for each frequency. Raises ValueError for factors of another kind."""
    import numpy as np
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    count = (getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads) // 2
    stored = np.fromfile(file, dtype="<f4", count=count, offset=begin)
    rope = {
        **(config.rope_parameters or {}),
        "rope_type": "llama3",
        "factor": float(stored.max()),
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    base = 1.0 / rope["rope_theta"] ** (np.arange(0, 2 * count, 2) / (2 * count))
    config.rope_parameters = rope
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config)
    if not np.allclose(base / stored, scaled.numpy(), rtol=1e-3):
        raise ValueError("its rotary frequencies are scaled in an unknown way")
    return rope


if __name__ == "__main__":
    main()
