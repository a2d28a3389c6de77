"""Layers whose weights stay packed as in their files.

While a model is read, transformers gets a placeholder without memory for each such weight. Afterwards the model's
Linears, embedding and experts are replaced by layers with the file's own numbers and scales."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine.layers.packed_layers import (
    Pack,
    PackedEmbedding,
    PackedExperts,
    PackedLinear,
    RowByRow,
    dense,
    stacked_shapes,
)
from app.engine.layers.packed_weight import Numbers, PackedWeight
from app.engine.layers.quantised_layers import TRIED, stands_for
from app.engine.layers.recurrent_layers import calls_its_linears


@dataclass(frozen=True, slots=True)
class KeptWeight:
    """A weight that stays packed; `slices` reads its rows, one slice after the other.

    `shape` is the shape that transformers expects, and `rows` the shape of the packed matrix, in which the matrices
    of a stack follow each other."""

    shape: tuple[int, ...]
    rows: tuple[int, int]
    dtype: torch.dtype
    slices: Callable[[], Iterable[Numbers]]

    def __getitem__(self, _all: object) -> Tensor:
        """Return zeros of the weight's shape that take no memory."""
        return torch.zeros(1, dtype=self.dtype).expand(self.shape)


def packable(model: PreTrainedModel, is_on_cpu: bool) -> dict[str, tuple[int, ...]]:
    """Map the names of weights that can stay packed to their shapes: [out, in] for Linears and the embedding,
    on a CPU also [experts, out, in] for stacked experts.

    Returns {} if a layer may read the weights of its Linears without calling them."""
    if not calls_its_linears(model):
        return {}
    embedding = model.get_input_embeddings()
    matrices = (
        (path, one) for path, one in model.named_modules() if type(one) is nn.Linear or one is embedding
    )
    modules: dict[str, Any] = dict(matrices)
    found = {f"{path}.weight": tuple[int, ...](module.weight.shape) for path, module in modules.items()}
    for path, module in model.named_modules() if is_on_cpu else ():
        found |= {f"{path}.{name}": shape for name, shape in stacked_shapes(module).items()}
    return found


@torch.inference_mode()
def keep_packed(model: PreTrainedModel, weights: Mapping[str, Any], pack: Pack, threads: int) -> None:
    """Replace the layers whose weights stay packed; `threads` weights are packed at once.

    A tied head gets the embedding's weight. An embedding that does more than look rows up is dequantised."""
    kept = {name: weight for name, weight in weights.items() if isinstance(weight, KeptWeight)}
    embedding: Any = model.get_input_embeddings()
    head: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    is_tied = head is not None and head.weight is embedding.weight
    stacks = defaultdict[str, dict[str, PackedWeight]](dict)
    with ThreadPoolExecutor(threads) as pool:
        packing = list(pool.map(lambda weight: pack(weight.rows, weight.slices()), kept.values()))
    for (name, weight), packed in zip(kept.items(), packing, strict=True):
        path, _, leaf = name.rpartition(".")
        module: Any = model.get_submodule(path)
        if leaf != "weight":
            stacks[path][leaf] = packed
        elif module is not embedding:
            if not (is_tied and module is head):
                model.set_submodule(path, _linear(packed, module.bias))
        elif not _keep_embedding(model, embedding, packed):
            module.weight = nn.Parameter(dense(packed).to(weight.dtype), requires_grad=False)
            if is_tied:
                head.weight = module.weight
        elif is_tied:
            model.set_output_embeddings(_linear(packed, head.bias))  # type: ignore[no-untyped-call]
    for path, matrices in stacks.items():
        _keep_experts(model, path, matrices)


def _keep_experts(model: PreTrainedModel, path: str, matrices: Mapping[str, PackedWeight]) -> None:
    """Replace experts and their router by layers that compute each row independently."""
    experts: Any = model.get_submodule(path)
    parent = model.get_submodule(path.rpartition(".")[0])
    for name, module in list(parent.named_children()):
        if module is not experts and len(getattr(module, "weight", ())) == experts.num_experts:
            parent.set_submodule(name, RowByRow(module))
    model.set_submodule(path, PackedExperts(experts, matrices))


def _linear(packed: PackedWeight, bias: Tensor | None) -> PackedLinear:
    return PackedLinear(packed, None if bias is None else bias.to(packed.parts["numbers"].device))


def _keep_embedding(model: PreTrainedModel, embedding: Any, packed: PackedWeight) -> bool:
    """Replace the embedding by a packed one if both give the same sample rows; return whether it was replaced."""
    placeholder = embedding.weight
    table = PackedEmbedding(packed, placeholder.dtype, getattr(embedding, "embed_scale", 1.0))
    first = packed.rows(torch.arange(max(TRIED) + 1, device=table.factor.device))
    embedding.weight = nn.Parameter(first.to(placeholder.dtype), requires_grad=False)
    is_same = stands_for(table, embedding)
    embedding.weight = placeholder
    if is_same:
        model.set_input_embeddings(table)
    return is_same
