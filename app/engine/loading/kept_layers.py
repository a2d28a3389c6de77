"""Weights that are not read with the model: those that stay packed as in their files, and those to be quantised.

While a model is read, transformers gets a placeholder without memory for each such weight. Afterwards a packed
weight gets a layer with the file's own numbers and scales; a weight to be quantised becomes a StoredParameter."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from math import nan
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
from app.engine.layers.packed_weight import SLICE, Numbers, PackedWeight
from app.engine.layers.quantisation import CPU, StoredParameter, quantised, replace_parameters
from app.engine.layers.quantised_layers import FIRST_ROWS, stands_for
from app.engine.layers.recurrent_layers import calls_its_linears
from app.values.quantisation_sizes import is_large_matrix

QUANTISED_AT_ONCE = 2**22
"""About how many numbers of a dense weight are read and quantised at a time."""


@dataclass(frozen=True)
class LaterWeight:
    """A weight that is read after the model; `shape` is the shape that transformers expects."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @cached_property
    def placeholder(self) -> Tensor:
        """A tensor of the weight's shape that takes no memory. Its numbers are NaN, so that they cannot be used
        unnoticed."""
        return torch.full((1,), nan, dtype=self.dtype).expand(self.shape)

    def __getitem__(self, _all: object) -> Tensor:
        return self.placeholder


@dataclass(frozen=True)
class KeptWeight(LaterWeight):
    """A weight that stays packed; `slices` reads its rows, one slice after the other.

    `rows` is the shape of the packed matrix, in which the matrices of a stack follow each other."""

    rows: tuple[int, int]
    slices: Callable[[], Iterable[Numbers]]


@dataclass(frozen=True)
class DenseWeight(LaterWeight):
    """A weight that is read when it is quantised; `stored` is read when it is indexed."""

    stored: Any

    def read(self) -> Tensor:
        """Read the weight in the type in which it is stored. Raises ValueError if it has another shape."""
        values: Tensor = self.stored[...]
        if values.shape != self.shape:
            sizes = (" x ".join(map(str, shape)) for shape in (values.shape, self.shape))
            raise ValueError("a weight of {} does not fit the config.json, which needs {}".format(*sizes))
        return values


def packable(model: PreTrainedModel, is_on_cpu: bool) -> dict[str, tuple[int, ...]]:
    """Map the names of weights that can stay packed to their shapes: [out, in] for Linears and the embedding,
    on a CPU also [experts, out, in] for stacked experts. The names lack the prefix of the model's decoder.

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
    return {name.removeprefix(f"{model.base_model_prefix}."): shape for name, shape in found.items()}


def shape_in(kept: Mapping[str, tuple[int, ...]], name: str) -> tuple[int, ...]:
    """Return the shape of the weight in `kept` (see `packable`) with this name in a file; () if there is none.

    Files put any prefix before the names, such as "language_model.model."."""
    while name not in kept and name:
        name = name.partition(".")[2]
    return kept.get(name, ())


def dense_weights(
    model: PreTrainedModel, weights: Mapping[str, Any], dtype: torch.dtype
) -> dict[str, DenseWeight]:
    """Return the lazy weights of Linears and of the embedding as DenseWeights.

    Slices of safetensors with another shape are left out, so that transformers reports them."""
    wanted = packable(model, is_on_cpu=False)
    shapes = {name: shape for name in weights if (shape := shape_in(wanted, name))}
    return {
        name: DenseWeight(shape, dtype, stored)
        for name, shape in shapes.items()
        if not hasattr(stored := weights[name], "get_shape") or tuple(stored.get_shape()) == shape
    }


def int8_weights(model: PreTrainedModel, weights: Mapping[str, Any]) -> dict[str, KeptWeight]:
    """Return large matrices whose lazy weights are floats as KeptWeights of 8 bits.

    Otherwise they would take most of the time and memory of a model whose other matrices stay packed."""
    matrices = packable(model, is_on_cpu=False)
    wanted = {name: shape for name, shape in matrices.items() if is_large_matrix(shape)}
    lazy = {name: stored for name, stored in weights.items() if hasattr(stored, "get_shape")}
    return {
        name: KeptWeight(shape, torch.float32, (shape[0], shape[1]), partial(_int8_slices, stored, *shape))
        for name, stored in lazy.items()
        if (shape := shape_in(wanted, name)) and shape == tuple(stored.get_shape())
    }


def _int8_slices(stored: Any, outs: int, size: int) -> Iterator[Numbers]:
    """Read and quantise the rows of a lazy weight [outs, size], some at a time."""
    count = max(1, QUANTISED_AT_ONCE // size // SLICE) * SLICE
    for begin in range(0, outs, count):
        numbers = quantised(stored[begin : begin + count], 8, CPU)
        yield Numbers(8, numbers.values, numbers.scale)


def later_weights(model: PreTrainedModel, weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return the LaterWeights by their names in the model, which differ from those in some files."""
    later = (weight for weight in weights.values() if isinstance(weight, LaterWeight))
    known = {weight.placeholder.data_ptr(): weight for weight in later}
    named = ((name, parameter.data_ptr()) for name, parameter in model.named_parameters() if known)
    return {name: known[place] for name, place in named if place in known}


def has_changed_placeholder(model: PreTrainedModel, later: Collection[str]) -> bool:
    """Return whether transformers computed a weight from placeholders, for example by a change of order."""
    others = (parameter for name, parameter in model.named_parameters() if name not in later)
    return any(bool(parameter.flatten()[:1].isnan().any()) for parameter in others if not parameter.is_meta)


def read_later(model: PreTrainedModel, later: Mapping[str, DenseWeight]) -> None:
    """Replace placeholders by parameters that are read when they are quantised."""
    stored = {}
    for name, weight in later.items():
        stored[model.get_parameter(name)] = made = StoredParameter(weight.placeholder, requires_grad=False)
        made.read = weight.read
    replace_parameters(model, stored)


@torch.inference_mode()
def keep_packed(model: PreTrainedModel, kept: Mapping[str, KeptWeight], pack: Pack, threads: int) -> None:
    """Replace the layers whose weights stay packed; `threads` weights are packed at once.

    A tied head gets the embedding's weight. An embedding that does more than look rows up is dequantised."""
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
        is_router = module is not experts and len(getattr(module, "weight", ())) == experts.num_experts
        if is_router and not isinstance(module, PackedLinear):  # whose rows are independent already
            parent.set_submodule(name, RowByRow(module))
    model.set_submodule(path, PackedExperts(experts, matrices))


def _linear(packed: PackedWeight, bias: Tensor | None) -> PackedLinear:
    return PackedLinear(packed, None if bias is None else bias.to(packed.parts["numbers"].device))


def _keep_embedding(model: PreTrainedModel, embedding: Any, packed: PackedWeight) -> bool:
    """Replace the embedding by a packed one if both give the same sample rows; return whether it was replaced."""
    table = PackedEmbedding(packed, embedding.weight.dtype, getattr(embedding, "embed_scale", 1.0))
    first = packed.rows(torch.arange(min(FIRST_ROWS, packed.shape[0]), device=table.factor.device))
    is_same = stands_for(table, embedding, first)
    if is_same:
        model.set_input_embeddings(table)
    return is_same
