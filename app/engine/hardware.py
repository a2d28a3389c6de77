"""Where a model runs and how precisely, unless the person says otherwise."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from app.errors import BadOption, first_line
from app.messages import Device, DType

NO_CARD = "No CUDA device is available here"


class Card(Protocol):
    """The graphics card, if there is one."""

    def is_there(self) -> bool:
        """Whether torch sees a card; it may still be unusable."""

    def compute(self) -> None:
        """Run one small kernel; raises the driver's error where torch has no kernels for the card."""


class TorchCard:
    """The first one that torch sees."""

    def is_there(self) -> bool:
        """torch's answer."""
        return torch.cuda.is_available()

    def compute(self) -> None:
        """A sum that is waited for."""
        torch.ones(8, device="cuda").sum().item()


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """Where a model runs. `note` says why an existing card is not used."""

    device: torch.device
    note: str = ""


def choose_device(choice: Device, card: Card | None = None) -> ChosenDevice:
    """The CUDA device where there is one that works, else the CPU.

    Raises BadOption for "cuda" where none can be used."""
    if choice == "cpu":
        return ChosenDevice(torch.device("cpu"))
    problem = _problem_of(card or TorchCard())
    if not problem:
        return ChosenDevice(torch.device("cuda"))
    if choice == "cuda":
        raise BadOption(f"{problem}: choose --device cpu, or install a CUDA build of torch that fits.")
    return ChosenDevice(torch.device("cpu"), "" if problem == NO_CARD else f"{problem}, so the CPU is used.")


def _problem_of(card: Card) -> str:
    """Why a card cannot be used, as the beginning of a sentence; "" where it can."""
    if not card.is_there():
        return NO_CARD
    try:
        card.compute()
    except Exception as error:  # of many types: no kernels for it, a driver that is too old, no memory left
        return f"The graphics card cannot be used ({first_line(error)[:200].rstrip('.:')})"
    return ""


def choose_dtype(choice: DType, device: torch.device) -> torch.dtype:
    """bfloat16 where the machine multiplies it natively, else float16 on CUDA and float32 on a CPU."""
    if choice != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[choice]
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


def uploaded(numbers: NDArray[Any], device: torch.device) -> Tensor:
    """Numbers on the device. From pinned memory, which torch keeps until it was read, so that nothing waits."""
    return _source(numbers, device).to(device, non_blocking=True)


def upload_into(target: Tensor, numbers: NDArray[Any]) -> None:
    """Numbers in one copy to a place on the device, which waits for nothing either."""
    target.copy_(_source(numbers, target.device), non_blocking=True)


def _source(numbers: NDArray[Any], device: torch.device) -> Tensor:
    source = torch.from_numpy(numbers)
    return source.pin_memory() if device.type == "cuda" else source


def _cpu_has_bfloat16() -> bool:
    # Older torch releases of the supported range do not tell: float32 is always right there.
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))
