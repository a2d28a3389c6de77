"""Weight-only quantisation: its names, and the bytes of quantised weights, computed without torch.

In int8 each row has a scale; in int4 each 32 neighbours in a row share a scale and an offset. Scales and
offsets have the activations' precision. Linears and the embedding are quantised; norms, position embeddings and
stacked experts are not. With int4, the embedding and the head still get 8 bits, because no later layer could
correct the head's errors, and the embedding is often the same tensor.
"""

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Literal

Quantisation = Literal["none", "int8", "int4"]
QuantisationChoice = Literal["auto", "none", "int8", "int4"]
"""The quantisation that is asked for; `automatic` decides what "auto" means."""

GROUP = 32
"""The group size of int4: how many neighbours in a row share a scale."""

_TABLES = ("lm_head.", "embed_out.", "embed_tokens.", "embed_in.", "wte.", "word_embeddings.")
_POSITIONS = ("wpe.", "embed_positions.", "position_embeddings.")
"""Parts of the names that checkpoints give to embedding and head, and to position embeddings."""

_EXPERTS = re.compile(r"(?<!shared_)experts\.")
"""Matches the names of experts' matrices. If a checkpoint stores them separately, transformers stacks them in one
tensor. Shared experts are ordinary Linears."""

SMALL = 50_000_000
"""Parameters below which a model is not quantised automatically, because its steps are short and its text would
change most."""
LARGE_MATRIX = 2**20
"""Beside packed weights, matrices of floats with more numbers than this are quantised to 8 bits on a CPU. Smaller
ones, such as routers, take little time."""
MOSTLY = 0.5
"""The smallest share of a model's parameters for which quantisation is worth it."""


def automatic(parameters: int, share: float, is_fast: bool) -> tuple[Quantisation, str]:
    """Return the quantisation that "auto" means. Also returns a sentence for the user if this is "none" although
    int8 `is_fast` here, else "".

    `share` is the share of the parameters that int8 would quantise."""
    if not is_fast:
        return "none", ""
    if parameters < SMALL:
        return "none", "Weights are not quantised: the model is so small that it is fast anyway."
    if share < MOSTLY:
        return (
            "none",
            "Weights are not quantised: most of them are in recurrent layers or in stacked experts.",
        )
    return "int8", ""


def is_large_matrix(shape: Sequence[int]) -> bool:
    """Return whether a matrix of floats of this shape is quantised beside packed weights."""
    return len(shape) == 2 and prod(shape) > LARGE_MATRIX


def kept_words(bits: float) -> str:
    """Return a phrase that tells the user the mean number of bits of packed weights."""
    return f"{bits:.1f} bits per weight"


def bits_of(quantisation: Quantisation, in_features: int, is_table: bool = False) -> int:
    """Return the bits per number of a weight; 0 if it is not quantised. Embedding and head are tables."""
    if quantisation == "none":
        return 0
    return 4 if quantisation == "int4" and not is_table and in_features % GROUP == 0 else 8


def group_of(bits: int, in_features: int) -> int:
    """Return how many neighbours in a row share a scale: all of them in 8 bits, GROUP of them in 4 bits."""
    return in_features if bits == 8 else GROUP


def weight_bytes(shape: tuple[int, int], itemsize: int, bits: int) -> int:
    """Return the bytes of a weight [out, in] with `bits` per number; `itemsize` is that of the activations."""
    if not bits:
        return prod(shape) * itemsize
    groups = shape[0] * shape[1] // group_of(bits, shape[1])
    return prod(shape) * bits // 8 + groups * itemsize * (2 if bits == 4 else 1)


def model_bytes(shapes: Mapping[str, tuple[int, ...]], itemsize: int, quantisation: Quantisation) -> int:
    """Return the bytes of a checkpoint's weights once loaded, from its tensors' names and shapes.

    Tied weights must be given once."""
    return sum(_tensor_bytes(name, shape, itemsize, quantisation) for name, shape in shapes.items())


def _tensor_bytes(name: str, shape: tuple[int, ...], itemsize: int, quantisation: Quantisation) -> int:
    is_matrix = len(shape) == 2 and name.endswith(".weight")
    if not is_matrix or _EXPERTS.search(name) or any(part in name for part in _POSITIONS):
        return prod(shape) * itemsize
    bits = bits_of(quantisation, shape[1], is_table=any(part in name for part in _TABLES))
    return weight_bytes((shape[0], shape[1]), itemsize, bits)
