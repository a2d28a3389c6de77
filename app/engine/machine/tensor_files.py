"""Reads tensors of a safetensors checkpoint, of one or several files, by their names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME


class TensorFiles:
    """The open files of a checkpoint, none if it has no safetensors. Methods raise KeyError for unknown names."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, Any] = {}
        index, names = folder / SAFE_WEIGHTS_INDEX_NAME, {SAFE_WEIGHTS_NAME}
        if not (folder / SAFE_WEIGHTS_NAME).is_file():
            listed = json.loads(index.read_text("utf-8"))["weight_map"] if index.is_file() else {}
            # Paths of the index are reduced to file names, so that only this folder is read.
            names = {Path(name).name for name in listed.values()}
        for path in sorted(folder / name for name in names):
            file: Any = safe_open(path, framework="pt")
            self._files |= dict.fromkeys(file.keys(), file)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def lazy(self, name: str) -> Any:
        """Return a slice, which is read when it is indexed; its header has the shape and the type."""
        return self._files[name].get_slice(name)

    def read(self, name: str) -> Tensor:
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor
