"""Chooses the device and the precision of a model, uploads arrays, and compares results up to rounding."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from app.engine.machine.compiling import processor_capabilities
from app.engine.machine.process_memory import is_out_of_memory
from app.errors import BadOption, first_line
from app.system.gpus import driver_fault, listed_gpus
from app.values.messages import Device, DType

NO_GPU = "No CUDA device is available here"
FITTING = "install a CUDA build of torch that fits"
INDEX = "https://download.pytorch.org/whl"
CUDA_TORCH = f'run pip uninstall -y torch, then pip install "torch>=2.11,<2.14" --index-url {INDEX}/cu130'
"""Advice to install torch with CUDA from PyTorch's own index, because PyPI has this build only for Linux."""
OLDER_DRIVER = f"update the NVIDIA driver, or install torch from {INDEX}/cu126"
WORKING_DRIVER = "restart the machine, or install the NVIDIA driver again"
VISIBLE = "CUDA_VISIBLE_DEVICES"
SECONDS = 10.0
"""Maximum time of nvidia-smi when a model is loaded."""

TOLERANCE = {torch.float32: 1e-2, torch.bfloat16: 0.15, torch.float16: 0.05}
"""How far a row's values may differ (root mean square), in standard deviations of all values. Wrong logits differ
by 1 or more."""


class Gpu:
    """The first GPU that torch sees, if there is one."""

    def is_there(self) -> bool:
        """Return whether torch sees a CUDA GPU; the GPU may still be unusable."""
        return torch.cuda.is_available()

    def compute(self) -> None:
        """Run one small kernel; raises torch's error if the GPU cannot run it."""
        torch.ones(8, device="cuda").sum().item()

    def name_by_driver(self) -> str:
        """Return the first GPU's name from the NVIDIA driver, even if torch does not see it; "" without a
        driver."""
        return next((gpu.name for gpu in listed_gpus(SECONDS)), "")

    def fault_of_driver(self) -> str:
        """Return what nvidia-smi prints if the driver does not work; "" if it works or is not installed."""
        return driver_fault(SECONDS)

    def is_hidden(self) -> bool:
        """Return whether the environment chooses which GPUs CUDA shows."""
        return VISIBLE in os.environ

    def cuda_of_torch(self) -> str:
        """Return the CUDA version that torch was built for; "" for a torch without CUDA."""
        return torch.version.cuda or ""

    def is_apple(self) -> bool:
        return torch.backends.mps.is_available()


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """The device that a model runs on. `note` explains why an existing GPU is not used; "" otherwise."""

    device: torch.device
    note: str = ""


FaultOf = Callable[[torch.device], str]
"""(device) -> why the device fails a trial; "" if it passes."""


def choose_device(
    choice: Device, gpu: Gpu | None = None, fault_of: FaultOf = lambda _device: "nothing was tried on it"
) -> ChosenDevice:
    """Choose the device; "auto" means CUDA if it works, else an Apple GPU if it passes the trial, else the CPU.

    Raises BadOption for "cuda" if no CUDA device can be used."""
    if choice == "cpu":
        return ChosenDevice(torch.device("cpu"))
    gpu = gpu or Gpu()
    problem, remedy = _problem_of(gpu)
    if not problem:
        return ChosenDevice(torch.device("cuda"))
    if choice == "cuda":
        raise BadOption(f"{problem}: choose --device cpu, or {remedy}.")
    if problem != NO_GPU:
        return ChosenDevice(torch.device("cpu"), f"{problem}, so the CPU is used. To use the GPU, {remedy}.")
    if not gpu.is_apple():
        return ChosenDevice(torch.device("cpu"))
    apple = torch.device("mps")
    if reason := fault_of(apple):
        words = f"The Apple GPU is not used, because its trial failed ({reason.rstrip('.')})."
        return ChosenDevice(torch.device("cpu"), words)
    return ChosenDevice(apple)


def _problem_of(gpu: Gpu) -> tuple[str, str]:
    """Return why a GPU cannot be used, as the beginning of a sentence, and what to do; ("", "") if it can."""
    if not gpu.is_there():  # torch sees no GPU, but a driver may
        name, cuda = gpu.name_by_driver(), gpu.cuda_of_torch()
        if not name and (fault := gpu.fault_of_driver()):
            return f"The NVIDIA driver does not work ({fault})", WORKING_DRIVER
        if not name:
            return NO_GPU, FITTING
        if not cuda:
            return f"There is a GPU ({name}), but torch was installed without CUDA", CUDA_TORCH
        if gpu.is_hidden():
            return (
                f"There is a GPU ({name}), but {VISIBLE} hides it",
                f"remove {VISIBLE} from the environment",
            )
        return f"There is a GPU ({name}), but its driver does not run torch's CUDA {cuda}", OLDER_DRIVER
    try:
        gpu.compute()
    # torch has no kernels for the GPU, the driver is too old, or no memory is left
    except Exception as error:
        remedy = "close the programs that fill its memory" if is_out_of_memory(error) else FITTING
        return f"The GPU cannot be used ({first_line(error)})", remedy
    return "", ""


def numbered(device: torch.device) -> torch.device:
    """Add this thread's GPU number to a CUDA device, because weight loaders read plain "cuda" as GPU 0."""
    return torch.device("cuda", torch.cuda.current_device()) if device.type == "cuda" else device


def choose_dtype(choice: DType, device: torch.device) -> torch.dtype:
    """Return the chosen type. For "auto" return bfloat16 if the CPU or CUDA device multiplies it natively, else
    float16 on CUDA and float32 on other devices."""
    if choice != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[choice]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if device.type != "cpu":
        return torch.float32
    capabilities = processor_capabilities()
    has_bfloat16 = capabilities.get("amx_bf16") or capabilities.get("avx512_bf16")
    return torch.bfloat16 if has_bfloat16 else torch.float32


def sum_exactly(device: torch.device) -> None:
    """Set cuBLAS to add its partial sums in float32, and switch cuDNN's attention off, for the whole process.

    By default cuBLAS may round partial sums to half precision when it splits a product's sums. It does that for few
    rows, so a row's result would depend even more on the number of rows. cuDNN's attention makes a new plan for
    each length of the text, so trials at load could not cover all plans. TF32 is off by default."""
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def dtype_name(dtype: torch.dtype) -> str:
    """Return a type's name without its package: "bfloat16" for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


def uploaded(array: NDArray[Any], device: torch.device) -> Tensor:
    """Copy an array to the device; only MPS waits for the copy. On the CPU the tensor shares the array's memory."""
    return _source(array, device).to(device, non_blocking=device.type != "mps")


def upload_into(target: Tensor, array: NDArray[Any]) -> None:
    """Copy an array to an existing tensor on the device; only MPS waits for the copy."""
    target.copy_(_source(array, target.device), non_blocking=target.device.type != "mps")


def _source(array: NDArray[Any], device: torch.device) -> Tensor:
    source = torch.from_numpy(array)
    return source.pin_memory() if device.type == "cuda" else source


def rounding_of(model: nn.Module) -> float:
    """Return the largest tolerance of layers that round activations; 0.0 without such layers.

    Values that differ a little may be rounded to different numbers, each of which changes many values of the next
    layer."""
    return max((getattr(layer, "rounding", 0.0) for layer in model.modules()), default=0.0)


def is_exact(model: PreTrainedModel) -> bool:
    """Return whether the model computes in float32 without rounded activations. The number of rows or threads then
    changes only the last digits."""
    return model.dtype.itemsize >= 4 and not rounding_of(model)


def tolerance_of(model: PreTrainedModel) -> float:
    """Return the tolerance for comparing two ways to run this model."""
    return max(TOLERANCE[model.dtype], rounding_of(model))


def is_close(found: Tensor, expected: Tensor, tolerance: float = 0.0) -> bool:
    """Return whether each row agrees up to rounding, by the root mean square of its differences.

    A `tolerance` of 0.0 means TOLERANCE of the type. Single values are not compared, because among millions of
    logits some have errors of two units in the last place of bfloat16."""
    rows = (found.float() - expected.float()).square().mean(-1).sqrt()
    return bool(rows.max() / expected.float().std() < (tolerance or TOLERANCE[found.dtype]))
