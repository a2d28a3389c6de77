"""Where a model runs and how precisely, unless the person says otherwise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from app.engine.machine.memory import is_out_of_memory
from app.errors import BadOption, first_line
from app.system.machine import nvidia_smi
from app.values.messages import Device, DType

NO_CARD = "No CUDA device is available here"
FITTING = "install a CUDA build of torch that fits"
INDEX = "https://download.pytorch.org/whl"
CUDA_TORCH = f'run pip uninstall -y torch, then pip install "torch>=2.11,<2.14" --index-url {INDEX}/cu130'
"""PyPI has torch with CUDA for Linux alone."""
OLDER_DRIVER = f"update the NVIDIA driver, or install torch from {INDEX}/cu126"


class Card(Protocol):
    """The graphics card, if there is one."""

    def is_there(self) -> bool:
        """Whether torch sees a card; it may still be unusable."""

    def compute(self) -> None:
        """Run one small kernel; raises the driver's error where torch has no kernels for the card."""

    def name_by_driver(self) -> str:
        """What an NVIDIA driver calls the first card; "" where none answers."""

    def cuda_of_torch(self) -> str:
        """The CUDA version that torch was built for; "" for a torch without CUDA."""

    def is_apple(self) -> bool:
        """Whether torch sees an Apple GPU."""


class TorchCard:
    """The first one that torch sees."""

    def is_there(self) -> bool:
        """torch's answer."""
        return torch.cuda.is_available()

    def compute(self) -> None:
        """A sum that is waited for."""
        torch.ones(8, device="cuda").sum().item()

    def name_by_driver(self) -> str:
        """nvidia-smi's answer, which does not depend on torch."""
        return nvidia_smi("name", seconds=10).strip().partition("\n")[0].strip()

    def cuda_of_torch(self) -> str:
        """torch's answer."""
        return torch.version.cuda or ""

    def is_apple(self) -> bool:
        """torch's answer."""
        return torch.backends.mps.is_available()


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """Where a model runs. `note` says why an existing card is not used."""

    device: torch.device
    note: str = ""


FaultOf = Callable[[torch.device], str]
"""Why a device fails a trial; "" where it passes."""


def choose_device(
    choice: Device, card: Card | None = None, fault_of: FaultOf = lambda _device: "nothing was tried on it"
) -> ChosenDevice:
    """The CUDA device where there is one that works, an Apple GPU if it passes the trial, else the CPU.

    Raises BadOption for "cuda" where none can be used."""
    if choice == "cpu":
        return ChosenDevice(torch.device("cpu"))
    card = card or TorchCard()
    problem, remedy = _problem_of(card)
    if not problem:
        return ChosenDevice(torch.device("cuda"))
    if choice == "cuda":
        raise BadOption(f"{problem}: choose --device cpu, or {remedy}.")
    if problem == NO_CARD:
        return _apple_or_cpu(card, fault_of)
    return ChosenDevice(torch.device("cpu"), f"{problem}, so the CPU is used. To use it, {remedy}.")


def _apple_or_cpu(card: Card, fault_of: FaultOf) -> ChosenDevice:
    if not card.is_apple():
        return ChosenDevice(torch.device("cpu"))
    apple = torch.device("mps")
    if reason := fault_of(apple):
        words = f"The Apple GPU is not used, for its trial failed ({reason.rstrip('.')})."
        return ChosenDevice(torch.device("cpu"), words)
    return ChosenDevice(apple)


def _problem_of(card: Card) -> tuple[str, str]:
    """Why a card cannot be used, as the beginning of a sentence, and what to do; "" where it can."""
    if not card.is_there():
        return _problem_without_card(card.name_by_driver(), card.cuda_of_torch())
    try:
        card.compute()
    except Exception as error:  # of many types: no kernels for it, a driver that is too old, no memory left
        remedy = "close the programs that fill its memory" if is_out_of_memory(error) else FITTING
        return f"The graphics card cannot be used ({first_line(error)[:200].rstrip('.:')})", remedy
    return "", ""


def _problem_without_card(name: str, cuda: str) -> tuple[str, str]:
    """As `_problem_of`, where torch sees no card: a driver may."""
    if not name:
        return NO_CARD, FITTING
    if not cuda:
        return f"There is a card ({name}), but torch was installed without CUDA", CUDA_TORCH
    return f"There is a card ({name}), but its driver does not run torch's CUDA {cuda}", OLDER_DRIVER


def numbered(device: torch.device) -> torch.device:
    """The card that this thread uses, by its number: what reads weights may take "cuda" for the first one."""
    return torch.device("cuda", torch.cuda.current_device()) if device.type == "cuda" else device


def choose_dtype(choice: DType, device: torch.device) -> torch.dtype:
    """bfloat16 where the machine multiplies it natively, else float16 on CUDA and float32 elsewhere."""
    if choice != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[choice]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if device.type == "cpu" and _cpu_has_bfloat16() else torch.float32


def sum_exactly(device: torch.device) -> None:
    """Have cuBLAS add its partial sums in float32, for the whole process.

    By default it may round them to half precision where it cuts a product's sums in parts, as it does for few rows:
    a row's bits would depend on the number of rows all the more. TF32 is off by default. cuDNN's attention is left
    out: it plans anew for each length of a text, and no trial at load meets all of its plans."""
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def dtype_name(dtype: torch.dtype) -> str:
    """ "bfloat16" for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


def uploaded(numbers: NDArray[Any], device: torch.device) -> Tensor:
    """Numbers on the device. From pinned memory, which torch keeps until it was read, so that nothing waits."""
    return _source(numbers, device).to(device, non_blocking=device.type != "mps")


def upload_into(target: Tensor, numbers: NDArray[Any]) -> None:
    """Numbers in one copy to a place on the device, which waits for nothing either."""
    target.copy_(_source(numbers, target.device), non_blocking=target.device.type != "mps")


def _source(numbers: NDArray[Any], device: torch.device) -> Tensor:
    source = torch.from_numpy(numbers)
    return source.pin_memory() if device.type == "cuda" else source


def _cpu_has_bfloat16() -> bool:
    # Older torch releases of the supported range do not tell: float32 is always right there.
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))
