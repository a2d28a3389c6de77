"""Reads checkpoints in safetensors whose weights another program quantised: GPTQ, AWQ, compressed-tensors,
bitsandbytes, MXFP4.

    model.layers.0.mlp.up_proj.qweight, .qzeros, .scales, .g_idx    ---> model.layers.0.mlp.up_proj.weight
    model.layers.0.mlp.up_proj.weight_packed, .weight_scale, …      ---> the same

    weight = (number - zero) * scale        a group of neighbours in a row shares scale and zero

transformers gets lazy weights, as for a GGUF file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from app.engine.layers.packed_weight import GROUP, Numbers
from app.engine.loading.gguf_blocks import MXFP4_TABLE, mxfp4_rows
from app.engine.loading.kept_layers import KeptWeight, shape_in
from app.engine.machine.tensor_files import TensorFiles
from app.values.dataclass_json import parse_json
from app.values.packed_checkpoint import (
    BITSANDBYTES,
    FP8,
    FP8_SCALES,
    LARGEST,
    MXFP4,
    PACKED_LEAVES,
    SCALES,
    SIDES,
    STACKED_BLOCKS,
    STACKED_SCALES,
    CheckpointForm,
    block_sizes,
)

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The columns of the eight numbers in a word of AWQ, from the lowest bits on."""
ROW_ORDER = 0
"""bitsandbytes' number for 8-bit weights that are not rearranged for a GPU."""

Read = Callable[[str], Tensor]


@dataclass(frozen=True, slots=True)
class QuantisedTensor:
    """A quantised weight [out, in], which is read when it is indexed or packed.

    `stem` is the name of its layer; `names` has the names of all tensors in the checkpoint."""

    stem: str
    form: CheckpointForm
    names: TensorFiles
    read: Read
    dtype: torch.dtype

    def __getitem__(self, _all: object) -> Tensor:
        """Read and dequantise the weight. Raises ValueError if its parts do not fit each other or are damaged."""
        values, scale, zero = self._parts()
        (outs, size), (rows, groups) = values.shape, scale.shape
        columns = self._columns(groups)
        block = self.form.block
        if block and (-(-outs // block[0]), -(-size // block[1])) == (rows, groups):
            high, wide = block  # the last blocks may be smaller
        elif outs % rows or (size % groups and columns is None):
            raise self._misfit("scales", scale, values.shape)
        else:
            high, wide = outs // rows, size // groups
        if columns is None:
            columns = torch.arange(size) // wide
        # A block of rows may share a scale.
        scale, zero = (each.float().repeat_interleave(high, 0)[:outs] for each in (scale, zero))
        return ((values.float() - zero[:, columns]) * scale[:, columns]).to(self.dtype)

    def can_pack(self, outs: int, size: int) -> bool:
        """Return whether the numbers are integers, and each run of GROUP neighbours in a row has one scale."""
        if self.form.is_float:
            return False
        rows, groups = self._scale().shape
        is_whole = rows == outs and size % GROUP == 0 and size // GROUP % groups == 0
        return is_whole and self._columns(groups) is None

    def slices(self, shape: tuple[int, int]) -> list[Numbers]:
        """Read the packed weight as one slice. Raises ValueError for another shape, or damaged scales or zeros."""
        (values, scale, zero), bits = self._parts(), self.form.bits
        if values.shape != shape:
            raise self._misfit("numbers", values, shape)
        if bits == 8 and self.form.is_packed:
            values, zero = (values ^ 128).view(torch.int8), zero - 128
        first = int(zero.flatten()[0])
        is_even = bool((zero == first).all()) and (bits < 8 or first == 0)
        scale = scale if scale.dtype == torch.float16 and is_even else scale.float()
        numbers = Numbers(bits, values.contiguous(), scale, zero=first if is_even else 0)
        return [numbers if is_even else replace(numbers, offset=-zero * scale)]

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Read the numbers, the scales and the zeros. Raises ValueError if the scales or the zeros are damaged."""
        values, scale = self._values(), self._scale()
        zero = self._zero(scale)
        if zero.shape != scale.shape:
            raise self._misfit("zeros", zero, scale.shape)
        if not bool(scale.float().isfinite().all()):
            raise ValueError(f"the scales of {self.stem[-60:]} are not numbers")
        return values, scale, zero

    def _misfit(self, what: str, part: Tensor, shape: Sequence[int]) -> ValueError:
        sizes = " x ".join(map(str, part.shape))
        return ValueError(f"the {what} {sizes} of {self.stem[-60:]} do not fit {' x '.join(map(str, shape))}")

    def _part(self, leaf: str) -> Tensor:
        return self.read(f"{self.stem}.{leaf}")

    def _values(self) -> Tensor:
        """Read the numbers [out, in] as bytes, which are unsigned if the checkpoint packs them."""
        if f"{self.stem}.weight_format" in self.names and int(self._part("weight_format")) != ROW_ORDER:
            raise ValueError(f"the numbers of {self.stem[-60:]} are in an order for a certain GPU")
        if not self.form.is_packed:
            return self._part("weight")
        if self.form.method == "gptq":
            return _unpacked(self._part("qweight").t(), self.form.bits)
        if self.form.method == "awq":
            return _unpacked(self._part("qweight"), self.form.bits, AWQ_ORDER).t()
        size = int(self._part("weight_shape")[1])
        return _unpacked(self._part("weight_packed"), self.form.bits)[:, :size]

    def _scale(self) -> Tensor:
        """Read the scales [out, groups]."""
        if self.form.method in ("gptq", "awq"):
            return self._part("scales").t()
        if self.form.method == BITSANDBYTES:
            return self._part("SCB").view(-1, 1) / 127
        is_inverse = self.stem + FP8_SCALES in self.names
        scale = self._part("weight_scale_inv" if is_inverse else "weight_scale")
        return scale.view(-1, 1) if scale.dim() < 2 else scale

    def _zero(self, scale: Tensor) -> Tensor:
        """Read the zeros [out, groups] in float32; if none are stored, return the middle of the numbers' range."""
        bits = self.form.bits
        if self.form.method in ("gptq", "awq"):
            order = AWQ_ORDER if self.form.method == "awq" else ()
            return _unpacked(self._part("qzeros"), bits, order).t().float() + self.form.is_offset
        middle = 2 ** (bits - 1) if self.form.is_packed else 0
        if f"{self.stem}.weight_zero_point" not in self.names:
            return torch.full(scale.shape, float(middle))
        zero = self._part("weight_zero_point")
        if zero.dtype == torch.int32 and self.form.is_packed:
            # Zeros are packed along the columns, unlike the numbers.
            return _unpacked(zero.t(), bits).t()[: len(scale)].float()
        return zero.float().view(scale.shape) + middle

    def _columns(self, count: int) -> Tensor | None:
        """Read which of `count` groups each column belongs to, if a checkpoint stores that (GPTQ's desc_act).

        Returns None if it does not, or if each group is a run of neighbouring columns."""
        name = "g_idx" if self.form.method == "gptq" else "weight_g_idx"
        if f"{self.stem}.{name}" not in self.names:
            return None
        groups = self._part(name).long()
        usual = torch.arange(len(groups)) // -(-len(groups) // count)
        return None if bool((groups == usual).all()) or bool((groups < 0).any()) else groups


@dataclass(frozen=True, slots=True)
class TableTensor:
    """A weight [out, in] of bitsandbytes with 4 bits, which is read when it is indexed or packed.

    Its numbers are places in a table of 16 floats. Neighbours in a block share a scale, across the ends of rows."""

    name: str
    names: TensorFiles
    read: Read
    dtype: torch.dtype

    def __getitem__(self, _all: object) -> Tensor:
        """Read and dequantise the weight. Raises ValueError if its parts do not fit each other."""
        places, scale, shape = self._parts()
        each = scale.repeat_interleave(self._stated()["blocksize"])[: len(places)]
        return (self._part("quant_map").float()[places.int()] * each).view(shape).to(self.dtype)

    def can_pack(self, _outs: int, size: int) -> bool:
        """Return whether whole blocks make up a row."""
        block = self._stated()["blocksize"]
        return bool(size % block == 0 and block % GROUP == 0)

    def slices(self, shape: tuple[int, int]) -> list[Numbers]:
        """Read the packed weight as one slice. The table's floats are rounded to whole numbers of 8 bits.

        Raises ValueError for another shape."""
        places, scale, found = self._parts()
        if found != shape:
            raise ValueError(f"the shape {found} of {self.name[-60:]} does not fit {shape}")
        table, one = whole_numbers(self._part("quant_map").double())
        return [Numbers(4, places.view(shape), scale.view(shape[0], -1) / one, table=table)]

    def _parts(self) -> tuple[Tensor, Tensor, tuple[int, ...]]:
        """Read the places of all numbers, the scales of all blocks, and the weight's shape."""
        stated = self._stated()
        pairs = self.read(self.name).view(torch.uint8).view(-1, 1)
        places = torch.cat((pairs >> 4, pairs & 15), 1).flatten()
        scale = self.read(self.name + LARGEST)
        if scale.dtype == torch.uint8:  # the scales are quantised, too
            largest = self._part("nested_absmax").repeat_interleave(stated["nested_blocksize"])
            scale = (
                self._part("nested_quant_map")[scale.int()] * largest[: len(scale)] + stated["nested_offset"]
            )
        shape = tuple(stated["shape"])
        if len(places) != prod(shape) or -(-len(places) // stated["blocksize"]) != len(scale):
            raise ValueError(f"the numbers of {self.name[-60:]} do not fit its scales or its shape {shape}")
        if not bool(scale.isfinite().all()):
            raise ValueError(f"the scales of {self.name[-60:]} are not numbers")
        return places, scale.float(), shape

    def _stated(self) -> dict[str, Any]:
        """Read the sizes that the file states for this weight. Raises ValueError if one is missing."""
        forms = ("bitsandbytes__nf4", "bitsandbytes__fp4")
        name = next((form for form in forms if f"{self.name}.quant_state.{form}" in self.names), forms[0])
        found = parse_json(bytes(self._part(f"quant_state.{name}").tolist()))
        stated = found if isinstance(found, dict) else {}
        sizes = [stated.get("blocksize"), *stated.get("shape", ()), stated.get("nested_blocksize", 1)]
        if len(sizes) != 4 or not all(isinstance(size, int) and size > 0 for size in sizes):
            raise ValueError(f"the sizes that are stated for {self.name[-60:]} are not valid")
        return {"nested_offset": 0.0, **stated}

    def _part(self, leaf: str) -> Tensor:
        return self.read(f"{self.name}.{leaf}")


def whole_numbers(table: Tensor) -> tuple[tuple[int, ...], int]:
    """Return whole numbers in proportion to the table's floats from -1 to 1, and the number that stands for 1.

    Of the proportions that fit 8 bits, the one with the smallest rounding errors is used."""
    ones = torch.arange(64, 128)[:, None]
    errors = ((table * ones).round() / ones - table).square().sum(1)
    one = int(ones[errors.argmin()])
    return tuple((table * one).round().int().tolist()), one


@dataclass(frozen=True, slots=True)
class StackedBlocks:
    """The matrices of a layer's experts in MXFP4 [experts, out, groups, 16], read when they are indexed or packed.

    `name` is the weight's name. Dequantised matrices have gpt-oss's order [experts, in, out]."""

    name: str
    read: Read
    dtype: torch.dtype

    def __getitem__(self, _all: object) -> Tensor:
        table = torch.tensor(MXFP4_TABLE, dtype=torch.float32)
        return torch.stack(
            [
                (table[one.values.long()] * one.scale.repeat_interleave(GROUP, 1)).t().to(self.dtype)
                for one in self.slices()
            ]
        )

    def slices(self, shape: tuple[int, ...] = ()) -> Iterator[Numbers]:
        """Yield the packed matrix of each expert. Raises ValueError if blocks and scales do not fit each other, or
        do not have this shape [experts, out, in]."""
        blocks, exponents = self.read(self.name + STACKED_BLOCKS), self.read(self.name + STACKED_SCALES)
        found = (*exponents.shape[:-1], exponents.shape[-1] * GROUP)
        if blocks.shape != (*exponents.shape, GROUP // 2) or found != (shape or found):
            sizes = " x ".join(map(str, blocks.shape))
            raise ValueError(
                f"the blocks {sizes} of {self.name[-60:]} do not fit their scales or the config.json"
            )
        yield from map(mxfp4_rows, blocks, exponents)


def _unpacked(words: Tensor, bits: int, order: Sequence[int] = ()) -> Tensor:
    """Unpack the numbers in words of 32 bits [rows, words] to bytes [rows, numbers]."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    fields = (words.contiguous()[..., None] >> shifts & (1 << bits) - 1).to(torch.uint8)
    if order:
        fields = fields[..., torch.tensor(order).argsort()]
    return fields.flatten(1)


def fp8_form(folder: Path, config: PreTrainedConfig) -> CheckpointForm | None:
    """Return the format of a checkpoint in FP8, as DeepSeek and AutoFP8 write it; None for other checkpoints.

    Also returns None if experts are stacked, because transformers dequantises these."""
    stated: Any = getattr(config, "quantization_config", None)
    if not isinstance(stated, dict) or stated.get("quant_method") != FP8:
        return None
    block = block_sizes(stated.get("weight_block_size"))  # () if a weight has one scale
    is_plain = all(name.endswith(FP8_SCALES) for name in TensorFiles(folder) if name.endswith("_scale_inv"))
    return CheckpointForm(FP8, 8, is_packed=False, is_float=True, block=block) if is_plain else None


def checkpoint_weights(
    folder: Path, form: CheckpointForm, dtype: torch.dtype, kept: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """Return a lazy weight for each weight in the folder's files, by its name there.

    `kept` has the names and shapes of weights that are to stay packed. They become KeptWeights if possible."""
    files = TensorFiles(folder)

    def read(name: str) -> Tensor:
        if name not in files:
            raise ValueError(f"the tensor {name[-80:]} is missing")
        return files.read(name)

    found: dict[str, Any] = {}
    for name in files:
        stem, _, leaf = name.rpartition(".")
        weight = f"{stem}.weight"
        if form.method == MXFP4 and name.endswith((STACKED_BLOCKS, STACKED_SCALES)):
            weight = name.removesuffix(STACKED_BLOCKS).removesuffix(STACKED_SCALES)
            found[weight] = stack = StackedBlocks(weight, read, dtype)
            if shape := shape_in(kept, weight):
                experts, outs, size = shape
                rows = partial(stack.slices, shape)
                found[weight] = KeptWeight((experts, size, outs), dtype, (experts * outs, size), rows)
        elif leaf in PACKED_LEAVES or (
            leaf == "weight" and any(f"{stem}.{name}" in files for name in SCALES)
        ):
            quantised: QuantisedTensor | TableTensor = QuantisedTensor(stem, form, files, read, dtype)
            if weight + LARGEST in files:
                quantised = TableTensor(weight, files, read, dtype)
            found[weight] = quantised
            if (shape := shape_in(kept, weight)) and quantised.can_pack(*shape):
                outs, size = shape
                slices = partial(quantised.slices, (outs, size))
                found[weight] = KeptWeight(shape, dtype, (outs, size), slices)
        elif leaf not in SIDES:
            found[name] = files.lazy(name)
    return found
