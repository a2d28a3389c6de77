"""Reads checkpoints in safetensors whose weights another program quantised: GPTQ, AWQ, compressed-tensors, MXFP4.

    model.layers.0.mlp.up_proj.qweight, .qzeros, .scales, .g_idx    ---> model.layers.0.mlp.up_proj.weight
    model.layers.0.mlp.up_proj.weight_packed, .weight_scale, …      ---> the same

    weight = (number - zero) * scale        a group of neighbours in a row shares scale and zero

transformers gets lazy weights, as for a GGUF file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from app.engine.layers.packed_weight import GROUP, Numbers
from app.engine.loading.gguf_blocks import MXFP4_TABLE, mxfp4_rows
from app.engine.loading.kept_layers import KeptWeight, shape_in
from app.engine.machine.tensor_files import TensorFiles
from app.values.packed_checkpoint import (
    FP8,
    FP8_SCALES,
    MXFP4,
    PACKED_LEAVES,
    SIDES,
    STACKED_BLOCKS,
    STACKED_SCALES,
    CheckpointForm,
    block_sizes,
)

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The columns of the eight numbers in a word of AWQ, from the lowest bits on."""

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
        scale = self._part("weight_scale_inv" if self.form.method == FP8 else "weight_scale")
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


def fp8_blocks(folder: Path, config: PreTrainedConfig, reads_all: bool) -> CheckpointForm | None:
    """Return the format of a checkpoint in DeepSeek's FP8; None for other checkpoints.

    Unless the caller `reads_all` such checkpoints, None is also returned if all blocks have the same size, because
    transformers reads only these correctly."""
    stated: Any = getattr(config, "quantization_config", None)
    block = block_sizes(stated.get("weight_block_size")) if isinstance(stated, dict) else ()
    if not block or stated.get("quant_method") != FP8:
        return None
    files = TensorFiles(folder)
    scales = [name for name in files if name.endswith("_scale_inv")]
    weights = [name.removesuffix("_scale_inv") for name in scales if name.endswith(FP8_SCALES)]
    headers = [files.lazy(name) for name in weights if name in files]
    shapes = [header.get_shape() for header in headers if header.get_dtype().startswith("F8")]
    sizes = [pair for shape in shapes for pair in zip(shape[-2:], block, strict=False)]
    is_uneven = any(size > most and size % most for size, most in sizes)
    form = CheckpointForm(FP8, 8, is_packed=False, is_float=True, block=block)
    return form if (is_uneven or reads_all) and len(shapes) == len(scales) else None


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
            leaf == "weight" and (f"{stem}.weight_scale" in files or stem + FP8_SCALES in files)
        ):
            quantised = QuantisedTensor(stem, form, files, read, dtype)
            found[weight] = quantised
            if (shape := shape_in(kept, weight)) and quantised.can_pack(*shape):
                outs, size = shape
                slices = partial(quantised.slices, (outs, size))
                found[weight] = KeptWeight(shape, dtype, (outs, size), slices)
        elif leaf not in SIDES:
            found[name] = files.lazy(name)
    return found
