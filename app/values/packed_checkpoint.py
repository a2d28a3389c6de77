"""How a checkpoint in safetensors is quantised, according to its config.json: GPTQ, AWQ or compressed-tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Method = Literal["gptq", "awq", "compressed-tensors"]
GPTQ_BITS = (2, 4, 8)
"""Numbers of 3 bits are stored across the borders of 32-bit words."""
PACKED_LEAVES = ("qweight", "weight_packed")
"""The last parts of the names of tensors with several numbers in a word of 32 bits."""
SIDES = (
    "qzeros", "scales", "g_idx", "weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx", "input_scale",
    "output_scale", "input_zero_point", "output_zero_point", "k_scale", "v_scale",
)  # fmt: skip
"""The last parts of the names of tensors that belong to a quantised weight."""


KEPT_BITS: Mapping[str, float] = {"I2": 2.5, "I4": 4.5, "I8": 8.25}
"""The bits that a number takes which stays packed, with its share of a scale for 128 numbers."""


@dataclass(frozen=True, slots=True)
class CheckpointForm:
    """A form of weights that can be read.

    `is_offset`: zeros are stored less one, as GPTQ's first version does. `is_packed`: numbers are packed in words
    of 32 bits; otherwise each has a byte of its own. `is_float`: the numbers are floats of 8 bits."""

    method: Method
    bits: int
    is_offset: bool = False
    is_packed: bool = True
    is_float: bool = False

    def shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the weight whose packed tensor has the shape `stored`."""
        if len(stored) != 2:
            return stored
        rows, columns, several = *stored, 32 // self.bits
        if self.method == "gptq":
            return columns, rows * several
        return (columns * several, rows) if self.method == "awq" else (rows, columns * several)


def checkpoint_form(config: Mapping[str, Any]) -> CheckpointForm | None:
    """Return how the weights of a model with this config.json are quantised; None if not in a form that can be
    read."""
    stated = config.get("quantization_config")
    if not isinstance(stated, Mapping):
        return None
    method, bits = stated.get("quant_method"), stated.get("bits", stated.get("w_bit"))
    if method == "gptq" and bits in GPTQ_BITS:
        layout = stated.get("checkpoint_format") or "gptq"
        return CheckpointForm("gptq", bits, layout == "gptq") if layout in ("gptq", "gptq_v2") else None
    if method == "awq" and bits == 4 and str(stated.get("version", "gemm")).lower() == "gemm":
        return CheckpointForm("awq", 4)
    if method == get_args(Method)[2]:
        return _compressed(stated)
    return None


def _compressed(stated: Mapping[str, Any]) -> CheckpointForm | None:
    groups = stated.get("config_groups")
    named = (
        [one for one in groups.values() if isinstance(one, Mapping)] if isinstance(groups, Mapping) else []
    )
    schemes = [one["weights"] for one in named if isinstance(one.get("weights"), Mapping)]
    kinds = {(str(one.get("type")), str(one.get("num_bits"))) for one in schemes}
    if len(kinds) != 1 or stated.get("sparsity_config"):
        return None
    (kind,), form = kinds, stated.get("format")
    if form == "pack-quantized" and kind in (("int", "4"), ("int", "8")):
        return CheckpointForm("compressed-tensors", int(kind[1]))
    is_bytes = (form, *kind) in (
        ("int-quantized", "int", "8"),
        ("float-quantized", "float", "8"),
        ("naive-quantized", "float", "8"),
        ("naive-quantized", "int", "8"),
    )
    if not is_bytes:
        return None
    return CheckpointForm("compressed-tensors", 8, is_packed=False, is_float=kind[0] == "float")
