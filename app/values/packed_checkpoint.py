"""How a checkpoint in safetensors is quantised, according to its config.json: GPTQ, AWQ, AutoRound,
compressed-tensors, bitsandbytes or MXFP4."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

Method = Literal["gptq", "awq", "compressed-tensors", "bitsandbytes", "mxfp4", "fp8"]
COMPRESSED: Final = "compressed-tensors"
BITSANDBYTES: Final = "bitsandbytes"
AUTO_ROUND: Final = "auto-round"
MXFP4: Final = "mxfp4"
FP8: Final = "fp8"
FP8_SCALES = ".weight_scale_inv"
"""In DeepSeek's FP8, the end of the names of the tensors of scales."""
GPTQ_BITS = (2, 4, 8)
"""The sizes in bits of GPTQ's numbers that can be read. Numbers of 3 bits cannot, because they are stored across
the borders of 32-bit words."""
PACKED_LEAVES = ("qweight", "weight_packed")
"""The last parts of the names of tensors with several numbers in a word of 32 bits."""
SIDES = (
    "qzeros", "scales", "g_idx", "weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx", "input_scale",
    "output_scale", "weight_scale_inv", "activation_scale", "input_zero_point", "output_zero_point", "k_scale",
    "v_scale", "absmax", "quant_map", "nested_absmax", "nested_quant_map", "bitsandbytes__nf4", "bitsandbytes__fp4",
    "SCB", "weight_format",
)  # fmt: skip
"""The last parts of the names of tensors that are stored beside the numbers of a quantised weight."""
LARGEST = ".absmax"
"""In bitsandbytes, what follows the name of a 4-bit weight in the name of the tensor with each block's largest
number."""
SCALES = ("weight_scale", "weight_scale_inv", "SCB", f"weight{LARGEST}")
"""The names, after that of the layer, of the tensors of scales for the tensor `weight`."""
AUTO_ROUND_LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    "auto_round:auto_gptq": {"quant_method": "gptq"},
    "auto_round:gptqmodel": {"quant_method": "gptq", "checkpoint_format": "gptq_v2"},
    "auto_round": {"quant_method": "gptq", "checkpoint_format": "gptq_v2"},
    "auto_round:auto_awq": {"quant_method": "awq"},
}
"""The layouts in which AutoRound writes integers, and how GPTQ's and AWQ's programs state the same layouts."""
ROTATED = ("spinquant_config", "rotation_config")
"""Keys of AutoRound's transforms, which rotate activations while the model runs."""
STACKED_BLOCKS, STACKED_SCALES = "_blocks", "_scales"
"""In MXFP4, the ends of the names of the tensors of stacked experts. The first tensor holds the numbers, two in a
byte, and the second their scales."""
PACKED_BITS: Mapping[str, float] = {"I2": 2.5, "I4": 4.5, "I8": 8.25, "F4": 5.0}
"""The bits of a packed number on a CPU, by type, including scales and offsets. Every 128 numbers share a scale of
32 bits, in I2 and I4 also an offset of 32 bits. In F4 (MXFP4's floats) every 32 numbers share a scale."""


@dataclass(frozen=True, slots=True)
class CheckpointForm:
    """A format of quantised weights that can be read. With `is_offset` the stored zero points are one too small,
    as in GPTQ's first version. With `is_packed` several numbers share a word; otherwise each has a byte of its own.
    With `is_float` they are floats of 8 bits. `block` has the rows and columns that share a scale, if stated."""

    method: Method
    bits: int
    is_offset: bool = False
    is_packed: bool = True
    is_float: bool = False
    block: tuple[int, ...] = ()

    def shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the weight whose packed tensor has the shape `stored`."""
        if len(stored) != 2:
            return stored
        rows, columns, several = *stored, 32 // self.bits
        if self.method == BITSANDBYTES:
            return rows * 2, columns  # the true shape is stored as text
        if self.method == "gptq":
            return columns, rows * several
        return (columns * several, rows) if self.method == "awq" else (rows, columns * several)


BYTES = CheckpointForm(COMPRESSED, 8, is_packed=False)
IN_BYTES = (
    "int-quantized int 8", "naive-quantized int 8", "float-quantized float 8", "naive-quantized float 8",
)  # fmt: skip
"""The formats of compressed-tensors that have a byte for each number."""


def checkpoint_form(config: Mapping[str, Any]) -> CheckpointForm | None:
    """Return how the weights of a config.json's model are quantised; None if they are not, or cannot be read."""
    stated = config.get("quantization_config")
    if not isinstance(stated, Mapping):
        return None
    if stated.get("quant_method") == AUTO_ROUND and stated.keys().isdisjoint(ROTATED):
        stated = {**stated, **AUTO_ROUND_LAYOUTS.get(str(stated.get("packing_format")), {})}
    method, bits = stated.get("quant_method"), stated.get("bits", stated.get("w_bit"))
    if method == "gptq" and bits in GPTQ_BITS and _has_one_kind(stated):
        layout = stated.get("checkpoint_format") or "gptq"
        return CheckpointForm("gptq", int(bits), layout == "gptq") if layout in ("gptq", "gptq_v2") else None
    if method == "awq" and bits == 4 and _has_one_kind(stated):
        return CheckpointForm("awq", 4) if str(stated.get("version", "gemm")).lower() == "gemm" else None
    if method == COMPRESSED:
        return _compressed(stated)
    if method == BITSANDBYTES and (stated.get("load_in_4bit") or stated.get("load_in_8bit")):
        bits = 4 if stated.get("load_in_4bit") else 8
        return CheckpointForm(BITSANDBYTES, bits, is_packed=bits == 4)
    return CheckpointForm(MXFP4, 4) if method == MXFP4 else None


def _has_one_kind(stated: Mapping[str, Any]) -> bool:
    """Return whether all quantised weights have as many bits as stated, in words of 32 bits."""
    layers = stated.get("dynamic") or stated.get("extra_config")
    others = layers.values() if isinstance(layers, Mapping) else ()
    bits = {one["bits"] for one in others if isinstance(one, Mapping) and one.get("bits", 16) != 16}
    return bits <= {stated.get("bits")} and stated.get("pack_dtype", "int32") == "int32"


def _compressed(stated: Mapping[str, Any]) -> CheckpointForm | None:
    groups = stated.get("config_groups")
    named = groups.values() if isinstance(groups, Mapping) else ()
    schemes = [one.get("weights") for one in named if isinstance(one, Mapping)]
    kinds = {(str(one.get("type")), str(one.get("num_bits"))) for one in schemes if isinstance(one, Mapping)}
    form, sparsity = stated.get("format"), stated.get("sparsity_config") or {}
    is_dense = isinstance(sparsity, Mapping) and sparsity.get("format", "dense") == "dense"
    # A transform rotates activations, too, while the model runs.
    if len(kinds) != 1 or not is_dense or stated.get("transform_config") or not isinstance(form, str):
        return None
    kind = " ".join((form, *kinds.pop()))
    if kind in ("pack-quantized int 4", "pack-quantized int 8"):
        return CheckpointForm(COMPRESSED, int(kind[-1]))
    blocks = (block_sizes(one.get("block_structure")) for one in schemes if isinstance(one, Mapping))
    block = next(filter(None, blocks), ())
    return replace(BYTES, is_float="float 8" in kind, block=block) if kind in IN_BYTES else None


def block_sizes(stated: Any) -> tuple[int, ...]:
    """Return the rows and columns of a block, stated as [128, 128] or "128x128"; () for anything else."""
    sizes = stated.split("x") if isinstance(stated, str) else stated if isinstance(stated, list) else ()
    found = tuple(int(size) for size in sizes if str(size).isdecimal() and int(size) > 0)
    return found if len(found) == len(sizes) == 2 else ()
