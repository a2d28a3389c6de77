"""Reads tensors of a safetensors checkpoint, of one or several files, by their names."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME


class TensorFiles:
    """The open files of a checkpoint, which are closed with `stack`. Methods raise KeyError for unknown names."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._files: dict[str, Any] = {}
        names = {SAFE_WEIGHTS_NAME}
        if not (folder / SAFE_WEIGHTS_NAME).is_file():
            # Paths of the index are reduced to file names, so that only this folder is read.
            names = {Path(name).name for name in _weight_map(folder).values()}
        for path in sorted(folder / name for name in names):
            file = stack.enter_context(safe_open(path, framework="pt"))
            self._files |= dict.fromkeys(file.keys(), file)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def shape(self, name: str) -> list[int]:
        return list(self._files[name].get_slice(name).get_shape())

    def stored(self, name: str) -> str:
        """Read a tensor's type from the file's header: F32, BF16, I64, ..."""
        return str(self._files[name].get_slice(name).get_dtype())

    def read(self, name: str) -> Tensor:
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor


def tensor_names(folder: Path) -> list[str]:
    """Read the names of the tensors in a folder; [] for a folder without safetensors files."""
    if (folder / SAFE_WEIGHTS_NAME).is_file():
        with safe_open(folder / SAFE_WEIGHTS_NAME, framework="pt") as weights:
            return list(weights.keys())
    return list(_weight_map(folder)) if (folder / SAFE_WEIGHTS_INDEX_NAME).is_file() else []


def _weight_map(folder: Path) -> dict[str, str]:
    """Read from the index which file contains which tensor: {tensor name: file name}."""
    files: dict[str, str] = json.loads((folder / SAFE_WEIGHTS_INDEX_NAME).read_text("utf-8"))["weight_map"]
    return files
