"""Writes checkpoints as the programs of GPTQ, AWQ, compressed-tensors and bitsandbytes do, with 8-bit floats as
DeepSeek or with experts in MXFP4 as gpt-oss, and the same weights dequantised."""

import json
import shutil
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file, save_file
from torch import Tensor

GROUP = 32
UNEVEN = 40
"""The rows and columns of a block of which no size of a weight is a multiple."""
AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": False}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}
AUTO_ROUND: dict[str, object] = {
    "quant_method": "auto-round",
    "bits": 4,
    "data_type": "int",
    "group_size": GROUP,
    "sym": True,
    "extra_config": {"model.layers.0.mlp.gate": {"bits": 16}},
}


def compressed(form: str, kind: str, bits: int, **more: object) -> dict[str, object]:
    weights = {
        "type": kind,
        "num_bits": bits,
        "strategy": "group",
        "group_size": GROUP,
        "symmetric": True,
        **more,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }


CONFIGS: dict[str, dict[str, object]] = {
    "gptq": GPTQ,
    "gptq 8 bits": GPTQ | {"bits": 8},
    "gptq v2, one zero": GPTQ | {"checkpoint_format": "gptq_v2", "sym": True},
    "gptq by activations": GPTQ | {"desc_act": True},
    "gptq of AutoRound": AUTO_ROUND | {"packing_format": "auto_round:auto_gptq"},
    "gptq v2 of AutoRound": AUTO_ROUND | {"packing_format": "auto_round"},
    "awq": AWQ,
    "awq of AutoRound": AUTO_ROUND | {"packing_format": "auto_round:auto_awq", "sym": False},
    "pack-quantized": compressed("pack-quantized", "int", 4),
    "pack-quantized, zeros": compressed("pack-quantized", "int", 4),
    "int-quantized": compressed("int-quantized", "int", 8),
    "float-quantized": compressed("float-quantized", "float", 8),
    "float-quantized, uneven blocks": compressed(
        "float-quantized", "float", 8, strategy="block", block_structure=[UNEVEN, UNEVEN]
    ),
    "fp8": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [GROUP, GROUP]},
    "fp8, one scale": {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None},
    "fp8 of AutoFP8": {"quant_method": "fp8", "activation_scheme": "static"},
    "fp8, uneven blocks": {"quant_method": "fp8", "weight_block_size": [UNEVEN, UNEVEN]},
    "mxfp4": {"quant_method": "mxfp4"},
    "nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "nf4, quantised scales": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    "llm.int8": {"quant_method": "bitsandbytes", "load_in_8bit": True},
}
NF4 = torch.tensor(
    [
        -1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0,
        0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0,
    ]
)  # fmt: skip
FLOATS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def write_quantised(plain: Path, kind: str, folder: Path, twin: Path) -> None:
    """Quantise the matrices of all layers in the folder `plain`; `twin` gets them dequantised."""
    shutil.copytree(plain, folder)
    shutil.copytree(plain, twin)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = CONFIGS[kind]
    (folder / "config.json").write_text(json.dumps(config))
    source = torch.Generator().manual_seed(0)
    found: dict[str, Tensor] = {}
    dense: dict[str, Tensor] = {}
    for name, weight in load_file(plain / "model.safetensors").items():
        if kind == "mxfp4" and name.endswith("_proj"):
            blocks, exponents, dense[name] = _blocks(weight.transpose(1, 2), source)
            found |= {f"{name}_blocks": blocks, f"{name}_scales": exponents}
            continue
        if kind == "mxfp4" or not name.endswith("_proj.weight"):
            found[name] = dense[name] = weight
            continue
        is_float = "float" in kind or "fp8" in kind
        write = _in_table if kind.startswith("nf4") else _floats if is_float else _quantised
        parts, dense[name] = write(kind, weight.float(), source)
        found |= {f"{name.removesuffix('.weight')}.{leaf}": part.contiguous() for leaf, part in parts.items()}
    save_file(found, folder / "model.safetensors")
    save_file(dense, twin / "model.safetensors")


def _blocks(weight: Tensor, source: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return random blocks and exponents for a weight [experts, out, in], and the weight [experts, in, out] that
    they stand for."""
    numbers = torch.randint(0, 16, weight.shape, generator=source, dtype=torch.uint8)
    groups = (*weight.shape[:2], weight.shape[2] // GROUP)
    exponents = torch.randint(118, 124, groups, generator=source, dtype=torch.uint8)
    pairs = numbers.view(*groups, GROUP // 2, 2)
    scale = (2.0 ** (exponents.float() - 127)).repeat_interleave(GROUP, 2)
    dense = (FLOATS[numbers.long()] * scale).transpose(1, 2).contiguous()
    return pairs[..., 0] | pairs[..., 1] << 4, exponents, dense


def _in_table(kind: str, weight: Tensor, source: torch.Generator) -> tuple[dict[str, Tensor], Tensor]:
    """Return the tensors that bitsandbytes writes for random places in its table, and the weight they stand for."""
    places = torch.randint(0, 16, (weight.numel() // 2, 2), generator=source, dtype=torch.uint8)
    stated: dict[str, object] = {"quant_type": "nf4", "blocksize": GROUP, "shape": list(weight.shape)}
    scale = torch.rand(weight.numel() // GROUP, generator=source) / 10 + 0.01
    parts = {
        "weight": places[:, :1] << 4 | places[:, 1:],
        "weight.quant_map": NF4.clone(),
        "weight.absmax": scale,
    }
    if "scales" in kind:
        numbers = torch.randint(0, 256, scale.shape, generator=source, dtype=torch.uint8)
        most, table = torch.rand(-(-len(scale) // 8), generator=source) / 20, torch.linspace(-1, 1, 256)
        parts |= {"weight.absmax": numbers, "weight.nested_absmax": most, "weight.nested_quant_map": table}
        stated |= {"nested_blocksize": 8, "nested_offset": 0.07}
        scale = table[numbers.long()] * most.repeat_interleave(8)[: len(scale)] + 0.07
    text = torch.frombuffer(bytearray(json.dumps(stated).encode()), dtype=torch.uint8)
    dense = (NF4[places.long()].view(-1, GROUP) * scale[:, None]).view(weight.shape)
    return parts | {"weight.quant_state.bitsandbytes__nf4": text}, dense


def _floats(kind: str, weight: Tensor, _source: torch.Generator) -> tuple[dict[str, Tensor], Tensor]:
    """Return the tensors of a weight in 8-bit floats, and the weight that they stand for."""
    if kind in ("fp8, one scale", "fp8 of AutoFP8"):
        most = weight.abs().max() / 448
        floats = (weight / most).to(torch.float8_e4m3fn)
        leaf = "weight_scale" if "Auto" in kind else "weight_scale_inv"
        parts = {"weight": floats, leaf: most, "activation_scale": torch.ones(())}
        return parts, floats.float() * most
    if kind == "float-quantized":
        scale = (weight.abs().amax(1, keepdim=True) / 448).bfloat16()
        floats = (weight / scale.float()).to(torch.float8_e4m3fn)
        return {"weight": floats, "weight_scale": scale}, floats.float() * scale.float()
    leaf = "weight_scale_inv" if "fp8" in kind else "weight_scale"
    return _float_blocks(weight, GROUP if kind == "fp8" else UNEVEN, leaf)


def _quantised(kind: str, weight: Tensor, source: torch.Generator) -> tuple[dict[str, Tensor], Tensor]:
    """Return the tensors that a program writes for a weight, and the weight that they stand for."""
    if kind == "llm.int8":
        most = weight.abs().amax(1)
        whole = (weight * 127 / most[:, None]).round()
        order = torch.zeros((), dtype=torch.uint8)
        dense = whole * (most / 127)[:, None]
        return {"weight": whole.to(torch.int8), "SCB": most, "weight_format": order}, dense
    bits = 8 if "8 bits" in kind or kind == "int-quantized" else 4
    outs, size = weight.shape
    columns = torch.arange(size) // (size if kind == "int-quantized" else GROUP)
    if kind == "gptq by activations":
        columns = columns[torch.randperm(size, generator=source)]
    count, middle = int(columns.max()) + 1, 2 ** (bits - 1)
    scale = (torch.rand((outs, count), generator=source) / 100 + 0.001).half()
    numbers = torch.randint(0, 2**bits, weight.shape, generator=source)
    has_zeros = "zeros" in kind or kind in (
        "gptq",
        "gptq 8 bits",
        "gptq by activations",
        "awq",
        "awq of AutoRound",
    )
    zero = torch.full((outs, count), middle)
    if has_zeros:
        zero = torch.randint(1, 2**bits, (outs, count), generator=source)
    dense = (numbers - zero[:, columns]) * scale.float()[:, columns]
    if kind.startswith("gptq"):
        stored = zero if "v2" in kind else zero - 1
        return {
            "qweight": _words(numbers, bits).t(),
            "qzeros": _words(stored.t(), bits),
            "scales": scale.t(),
            "g_idx": columns.int(),
        }, dense
    if kind.startswith("awq"):
        by_columns = torch.tensor(AWQ_COLUMNS)
        mixed = [
            part.t().reshape(len(part.t()), -1, 8)[..., by_columns].flatten(1) for part in (numbers, zero)
        ]
        return {"qweight": _words(mixed[0], 4), "qzeros": _words(mixed[1], 4), "scales": scale.t()}, dense
    if kind == "int-quantized":
        return {"weight": (numbers - middle).to(torch.int8), "weight_scale": scale}, dense
    parts = {
        "weight_packed": _words(numbers, bits),
        "weight_scale": scale,
        "weight_shape": torch.tensor([outs, size]),
    }
    if has_zeros:
        parts["weight_zero_point"] = _words(zero.t(), bits).t()
    return parts, dense


def _float_blocks(weight: Tensor, block: int, leaf: str) -> tuple[dict[str, Tensor], Tensor]:
    """Return 8-bit floats with a scale for each block, and the weight that they stand for. The last blocks of a row
    and of a column may be smaller."""
    rows, columns = weight.shape
    missing = (0, -columns % block, 0, -rows % block)
    blocks = F.pad(weight, missing).unflatten(1, (-1, block)).unflatten(0, (-1, block))
    scale = blocks.abs().amax((1, 3)) / 448
    each = scale.repeat_interleave(block, 0)[:rows].repeat_interleave(block, 1)[:, :columns]
    floats = (weight / each).to(torch.float8_e4m3fn)
    return {"weight": floats, leaf: scale}, floats.float() * each


def _words(numbers: Tensor, bits: int) -> Tensor:
    """Pack numbers [rows, columns] into words of 32 bits, the first one in the lowest bits."""
    fields = numbers.reshape(len(numbers), -1, 32 // bits) << torch.arange(0, 32, bits)
    return fields.sum(-1).to(torch.int32)
