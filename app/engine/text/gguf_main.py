"""The process that writes a GGUF file's config, tokenizer and chat template as files of a model's folder.

`gguf_config.py` makes the config, `gguf_tokenizer.py` the tokenizer. The file is not trusted, so the process limits
its memory, and the app its time.
"""

import json
from pathlib import Path
from typing import Any

from app.engine.machine.memory import address_space
from app.errors import first_line
from app.system.child_process import limit_memory, serve_each
from app.values.gguf_header import parts_of, read_gguf_header, read_gguf_values

MEMORY = 4 * 2**30
"""Bytes of address space that reading may take, in addition to the libraries and the mapped file."""


def main() -> None:
    """Answer jobs until the app ends."""
    serve_each(_answer)


def _answer(line: bytes) -> bytes:
    job: dict[str, Any] = json.loads(line)
    refused = ""
    try:
        _convert(Path(job.pop("file")), Path(job.pop("target")), **job)
    except (MemoryError, RecursionError):
        refused = "it takes too much memory"
    except BaseException as error:  # a panic of the tokenizer's Rust code is not an Exception
        refused = first_line(error)[:200].rstrip(".:") or type(error).__name__
    return json.dumps({"refused": refused}).encode() + b"\n"


def _convert(file: Path, target: Path) -> None:
    # Everything is imported before the memory is limited.
    from app.engine.text.gguf_config import config_of
    from app.engine.text.gguf_tokenizer import Vocabulary, end_tokens, write_tokenizer

    limit_memory(address_space() + file.stat().st_size + MEMORY)
    vocabulary = Vocabulary(read_gguf_values(parts_of(file)[0]))
    write_tokenizer(vocabulary, target)
    config = config_of(read_gguf_header(file))
    if known := end_tokens(vocabulary):
        config.eos_token_id = known if len(known) > 1 else known[0]
    config.save_pretrained(target)


if __name__ == "__main__":
    main()
