"""Where a model runs and how precisely, unless the person says otherwise."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.errors import BadOption
from app.messages import Device, DType


def choose_device(asked: Device) -> torch.device:
    """The CUDA device where there is one, else the CPU. Raises BadOption when "cuda" is asked in vain."""
    if asked == "cuda" and not torch.cuda.is_available():
        raise BadOption(
            "No CUDA device is available here: choose --device cpu, or install a CUDA build of torch."
        )
    if asked == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(asked)


def choose_dtype(asked: DType, device: torch.device) -> torch.dtype:
    """bfloat16 where the machine multiplies it natively, else float16 on CUDA and float32 on a CPU."""
    if asked != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[asked]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if _cpu_has_bfloat16() else torch.float32


def sum_exactly(device: torch.device) -> None:
    """Have cuBLAS add its partial sums in float32, for the whole process.

    By default it may round them to half precision where it cuts a product's sums in parts, as it does for few rows:
    a row's bits would depend on the number of rows all the more. TF32 is off by default."""
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def dtype_name(dtype: torch.dtype) -> str:
    """ "bfloat16" for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


def uploaded(numbers: NDArray[np.int64], device: torch.device) -> Tensor:
    """Numbers on the device. From pinned memory, which torch keeps until it was read, so that nothing waits."""
    return _source(numbers, device).to(device, non_blocking=True)


def upload_into(place: Tensor, numbers: NDArray[np.int64]) -> None:
    """Numbers in one copy to a place on the device, which waits for nothing either."""
    place.copy_(_source(numbers, place.device), non_blocking=True)


def _source(numbers: NDArray[np.int64], device: torch.device) -> Tensor:
    source = torch.from_numpy(numbers)
    return source.pin_memory() if device.type == "cuda" else source


def _cpu_has_bfloat16() -> bool:
    # Older torch releases of the supported range do not tell: float32 is always right there.
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))
