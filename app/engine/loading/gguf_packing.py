"""Keeps the quantised matrices of a GGUF file packed while its model is read, for the CPU's kernels.

transformers gets a placeholder without memory for each of them. Afterwards its Linears and its embedding are
replaced by layers that hold the file's own numbers and scales. A matrix is read from the mapped file some rows at a
time, so that it is never in memory as floats.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from app.engine.layers.native_linear import NativeEmbedding, NativeLinear
from app.engine.layers.packed_weight import OUTS, Numbers, PackedWeight, pack
from app.engine.layers.quantised_layers import TRIED, stands_for
from app.engine.loading.gguf_blocks import read_blocks
from app.engine.loading.gguf_changes import ROW_CHANGES, undo
from app.engine.runner.kv_cache import layer_windows
from app.values.gguf_architectures import Change
from app.values.gguf_header import KEPT_BITS, GgufTensor

AT_ONCE = 2**19
"""Numbers that are unpacked at a time, few enough for the processor's cache."""


@dataclass(frozen=True, slots=True)
class KeptWeight:
    """A matrix that stays packed: its tensors in the file, joined by their rows, and the converter's changes."""

    parts: tuple[GgufTensor, ...]
    changes: tuple[Change, ...]
    config: PreTrainedConfig
    shape: tuple[int, int]
    dtype: torch.dtype

    def __getitem__(self, _all: object) -> Tensor:
        """Return zeros of the weight's shape that take no memory."""
        return torch.zeros(1, dtype=self.dtype).expand(self.shape)

    def packed(self) -> PackedWeight:
        """Read the weight."""
        return pack(self.shape, self._slices())

    def _slices(self) -> Iterator[Numbers]:
        parts = [_mapped(part) for part in self.parts]
        rows = undo(torch.cat(parts) if len(parts) > 1 else parts[0], self.changes, self.config)
        count = max(1, AT_ONCE // self.shape[1] // OUTS) * OUTS
        for some in torch.split(rows, count):
            yield read_blocks(self.parts[0].stored, some.contiguous())


def _mapped(tensor: GgufTensor) -> Tensor:
    """Map the bytes of a tensor's rows into memory: [rows, bytes]."""
    shape = (tensor.shape[0], tensor.size // tensor.shape[0])
    # Copied on writing, because torch warns of memory that cannot be written.
    return torch.from_numpy(np.memmap(tensor.file, np.uint8, "c", tensor.begin, shape))


def can_keep(
    name: str, model: PreTrainedModel, parts: tuple[GgufTensor, ...], changes: tuple[Change, ...]
) -> bool:
    """Return whether this weight of a model can stay packed: that of a Linear or of the embedding, in one type."""
    module = model.get_submodule(name.rpartition(".")[0])
    is_matrix = name.endswith(".weight") and (
        type(module) is nn.Linear or module is model.get_input_embeddings()
    )
    one_type = len({(part.stored, part.shape[1:]) for part in parts}) == 1
    fits = parts[0].stored in KEPT_BITS and len(parts[0].shape) == 2 and set(changes) <= ROW_CHANGES
    # Recurrent layers also read the weights of their Linears directly.
    return is_matrix and one_type and fits and bool(layer_windows(model.config.get_text_config(decoder=True)))


@torch.inference_mode()
def keep_packed(model: PreTrainedModel, weights: Mapping[str, Any]) -> None:
    """Replace the layers whose weights stay packed; a head that is tied to the embedding gets its weight."""
    kept = {name: weight for name, weight in weights.items() if isinstance(weight, KeptWeight)}
    embedding: Any = model.get_input_embeddings()
    head: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    is_tied = head is not None and head.weight is embedding.weight
    for name, weight in kept.items():
        path = name.rpartition(".")[0]
        module: Any = model.get_submodule(path)
        packed = weight.packed()
        if module is not embedding:
            if not (is_tied and module is head):
                model.set_submodule(path, NativeLinear(packed, module.bias))
        elif not _keep_embedding(model, embedding, packed):
            module.weight = nn.Parameter(packed.dense().to(weight.dtype), requires_grad=False)
            if is_tied:
                head.weight = module.weight
        elif is_tied:
            model.set_output_embeddings(NativeLinear(packed, head.bias))  # type: ignore[no-untyped-call]


def _keep_embedding(model: PreTrainedModel, embedding: Any, packed: PackedWeight) -> bool:
    """Replace the embedding by a packed one, if it does no more than look rows up and scale them."""
    table = NativeEmbedding(packed, getattr(embedding, "embed_scale", 1.0))
    placeholder = embedding.weight
    first = packed.rows(torch.arange(max(TRIED) + 1))
    embedding.weight = nn.Parameter(first.to(placeholder.dtype), requires_grad=False)
    is_same = stands_for(table, embedding)
    embedding.weight = placeholder
    if is_same:
        model.set_input_embeddings(table)
    return is_same
