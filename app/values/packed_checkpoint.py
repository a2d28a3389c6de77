"""How a checkpoint in safetensors is quantised, according to its config.json: GPTQ, AWQ, compressed-tensors or
MXFP4."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

Method = Literal["gptq", "awq", "compressed-tensors", "mxfp4"]
COMPRESSED: Final = "compressed-tensors"
MXFP4: Final = "mxfp4"
GPTQ_BITS = (2, 4, 8)
"""The sizes in bits of GPTQ's numbers that can be read. Numbers of 3 bits cannot, because they are stored across
the borders of 32-bit words."""
PACKED_LEAVES = ("qweight", "weight_packed")
"""The last parts of the names of tensors with several numbers in a word of 32 bits."""
SIDES = (
    "qzeros", "scales", "g_idx", "weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx", "input_scale",
    "output_scale", "input_zero_point", "output_zero_point", "k_scale", "v_scale",
)  # fmt: skip
"""The last parts of the names of tensors that are stored beside the numbers of a quantised weight."""
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
    With `is_float` they are floats of 8 bits."""

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
    method, bits = stated.get("quant_method"), stated.get("bits", stated.get("w_bit"))
    if method == "gptq" and bits in GPTQ_BITS:
        layout = stated.get("checkpoint_format") or "gptq"
        return CheckpointForm("gptq", int(bits), layout == "gptq") if layout in ("gptq", "gptq_v2") else None
    if method == "awq" and bits == 4 and str(stated.get("version", "gemm")).lower() == "gemm":
        return CheckpointForm("awq", 4)
    if method == COMPRESSED:
        return _compressed(stated)
    return CheckpointForm(MXFP4, 4) if method == MXFP4 else None


def _compressed(stated: Mapping[str, Any]) -> CheckpointForm | None:
    groups = stated.get("config_groups")
    named = groups.values() if isinstance(groups, Mapping) else ()
    schemes = [one.get("weights") for one in named if isinstance(one, Mapping)]
    kinds = {(str(one.get("type")), str(one.get("num_bits"))) for one in schemes if isinstance(one, Mapping)}
    form = stated.get("format")
    if len(kinds) != 1 or stated.get("sparsity_config") or not isinstance(form, str):
        return None
    kind = " ".join((form, *kinds.pop()))
    if kind in ("pack-quantized int 4", "pack-quantized int 8"):
        return CheckpointForm(COMPRESSED, int(kind[-1]))
    return replace(BYTES, is_float="float 8" in kind) if kind in IN_BYTES else None
