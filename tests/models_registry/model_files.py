"""The files of a model that is small, well formed, and never loaded."""

import json
import struct
from pathlib import Path


def silent(*_: object) -> None:
    """A progress callback that does not care."""


def safetensors(values: int = 64) -> bytes:
    """A real safetensors file with one float32 tensor."""
    header = {"weight": {"dtype": "F32", "shape": [values], "data_offsets": [0, 4 * values]}}
    text = json.dumps(header).encode()
    data = bytes(range(251)) * (4 * values // 251 + 1)  # no two pieces of it are alike
    return struct.pack("<Q", len(text)) + text + data[: 4 * values]


def model_files(values: int = 64) -> dict[str, bytes]:
    """A model in one piece."""
    return {
        "config.json": b'{"model_type": "llama"}',
        "tokenizer.json": b"{}",
        "model.safetensors": safetensors(values),
    }


def sharded_files() -> dict[str, bytes]:
    """The same in two pieces, with the index that joins them."""
    shards = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    index = {"weight_map": {"first": shards[0], "second": shards[1]}}
    files = model_files()
    del files["model.safetensors"]
    return {**files, "model.safetensors.index.json": json.dumps(index).encode()} | {
        shard: safetensors(64 + number) for number, shard in enumerate(shards)
    }


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder
