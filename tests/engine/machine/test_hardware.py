"""Where a model runs and how precisely, on the machine the tests run on."""

import re
from dataclasses import dataclass

import pytest
import torch

from app.engine.machine.hardware import ChosenDevice, Gpu, choose_device, choose_dtype, sum_exactly
from app.errors import BadOption

CPU = torch.device("cpu")
CUDA = torch.device("cuda")


def test_what_the_person_asks_for_is_taken() -> None:
    assert choose_device("cpu") == ChosenDevice(CPU)
    assert choose_dtype("float16", CPU) == torch.float16
    assert choose_dtype("bfloat16", CPU) == torch.bfloat16
    assert choose_dtype("float32", torch.device("cuda")) == torch.float32


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_cuda_device_that_is_not_there_is_refused_with_what_to_do() -> None:
    assert choose_device("auto") == ChosenDevice(CPU)
    with pytest.raises(BadOption, match="No CUDA device is available here: choose --device cpu"):
        choose_device("cuda")


@dataclass
class PaperGpu(Gpu):
    """A card that is there or not, and says this when it is to compute."""

    error: Exception | None = None
    is_seen: bool = True
    name: str = ""
    cuda: str = "13.0"
    apple: bool = False
    hidden: bool = False
    fault: str = ""

    def is_there(self) -> bool:
        return self.is_seen

    def compute(self) -> None:
        assert self.is_seen
        if self.error:
            raise self.error

    def name_by_driver(self) -> str:
        return self.name

    def cuda_of_torch(self) -> str:
        return self.cuda

    def is_apple(self) -> bool:
        return self.apple

    def is_hidden(self) -> bool:
        return self.hidden

    def fault_of_driver(self) -> str:
        return self.fault


def test_a_card_that_works_is_taken_and_one_that_is_not_there_needs_no_word() -> None:
    assert choose_device("auto", PaperGpu()) == choose_device("cuda", PaperGpu()) == ChosenDevice(CUDA)
    assert choose_device("auto", PaperGpu(is_seen=False)) == ChosenDevice(CPU)


def test_a_card_that_torch_has_no_kernels_for_leaves_the_cpu_and_a_note() -> None:
    old = PaperGpu(RuntimeError("CUDA error: no kernel image is available.\nCompile with"))
    words = "The GPU cannot be used (CUDA error: no kernel image is available)"
    assert choose_device("auto", old) == ChosenDevice(
        CPU, f"{words}, so the CPU is used. To use the GPU, install a CUDA build of torch that fits."
    )
    assert choose_device("cpu", old) == ChosenDevice(CPU)
    with pytest.raises(BadOption, match=re.escape(f"{words}: choose --device cpu")):
        choose_device("cuda", old)


def test_a_driver_that_answers_while_torch_has_no_cuda_is_told_which_torch_to_install() -> None:
    gpu = PaperGpu(is_seen=False, name="NVIDIA GeForce RTX 4090", cuda="")
    note = choose_device("auto", gpu).note
    assert note.startswith("There is a GPU (NVIDIA GeForce RTX 4090), but torch was installed without CUDA")
    assert 'pip install "torch>=2.11,<2.14" --index-url https://download.pytorch.org/whl/cu130.' in note
    with pytest.raises(BadOption, match="torch was installed without CUDA: choose --device cpu, or run pip"):
        choose_device("cuda", gpu)


def test_a_driver_that_is_too_old_for_torch_is_named() -> None:
    note = choose_device("auto", PaperGpu(is_seen=False, name="Tesla V100", cuda="13.0")).note
    assert "(Tesla V100), but its driver does not run torch's CUDA 13.0, so the CPU is used" in note
    assert "update the NVIDIA driver" in note


def test_a_gpu_that_the_environment_hides_is_not_blamed_on_the_driver() -> None:
    note = choose_device("auto", PaperGpu(is_seen=False, name="Tesla V100", hidden=True)).note
    assert note == (
        "There is a GPU (Tesla V100), but CUDA_VISIBLE_DEVICES hides it, so the CPU is used. To use the GPU, "
        "remove CUDA_VISIBLE_DEVICES from the environment."
    )


def test_a_driver_that_does_not_work_is_quoted() -> None:
    broken = PaperGpu(is_seen=False, fault="Failed to initialize NVML: Driver/library version mismatch")
    words = "The NVIDIA driver does not work (Failed to initialize NVML: Driver/library version mismatch)"
    assert choose_device("auto", broken).note.startswith(
        f"{words}, so the CPU is used. To use the GPU, restart"
    )
    with pytest.raises(BadOption, match=re.escape(f"{words}: choose --device cpu, or restart the machine")):
        choose_device("cuda", broken)


def test_an_apple_gpu_is_not_passed_over_silently() -> None:
    apple = PaperGpu(is_seen=False, apple=True)
    found = choose_device("auto", apple, lambda _device: "it has no float64.")
    assert found.device == CPU
    assert found.note == "The Apple GPU is not used, because its trial failed (it has no float64)."
    assert choose_device("auto", apple).note.startswith("The Apple GPU is not used")


def test_an_apple_gpu_that_agrees_is_used() -> None:
    tried: list[torch.device] = []

    def agrees(device: torch.device) -> str:
        tried.append(device)
        return ""

    apple = PaperGpu(is_seen=False, apple=True)
    assert choose_device("auto", apple, agrees) == ChosenDevice(torch.device("mps"))
    assert choose_device("cpu", apple, agrees) == ChosenDevice(CPU)
    assert choose_device("auto", PaperGpu(apple=True), agrees) == ChosenDevice(CUDA)
    assert tried == [torch.device("mps")]
    assert choose_dtype("auto", torch.device("mps")) == torch.float32


def test_a_cpu_never_gets_float16_by_itself() -> None:
    assert choose_dtype("auto", CPU) in (torch.float32, torch.bfloat16)


def test_half_precision_is_summed_in_float32_on_cards_and_float32_is_not_rounded_to_tf32() -> None:
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_bf16_reduced_precision_reduction, matmul.allow_fp16_reduced_precision_reduction
    had_cudnn = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        sum_exactly(CPU)
        assert matmul.allow_bf16_reduced_precision_reduction == before[0]
        sum_exactly(torch.device("cuda"))
        assert not matmul.allow_bf16_reduced_precision_reduction
        assert not matmul.allow_fp16_reduced_precision_reduction
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(had_cudnn)
        matmul.allow_bf16_reduced_precision_reduction, matmul.allow_fp16_reduced_precision_reduction = before
