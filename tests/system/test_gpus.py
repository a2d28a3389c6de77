"""Which GPUs torch uses and what is free on them: outputs of nvidia-smi as people reported them, beside what
CUDA tells of the same machines."""

import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from app.system import gpus, programs
from app.system.gpus import (
    CudaDriver,
    CudaGpu,
    cuda_driver,
    cuda_of_torch,
    driver_fault,
    driver_version,
    gpu_memories,
    gpu_name,
    listed_gpus,
    memory_of,
    parse_driver,
    parse_fault,
    parse_listed,
    usable_gpus,
)
from app.values.model import Memory
from tests.support import fake_cuda

MIB = 1 << 20
OWN = Memory("cpu", 40 * 1024 * MIB, 64 * 1024 * MIB)
A, B, C = (f"{digit * 8}-4b3b-5007-2b55-{digit * 12}" for digit in "2ad")
CUDA = (13, 0)


def gpu(name: str, uuid: str, bus: str, mib: int, capability: tuple[int, int] = (8, 9)) -> CudaGpu:
    return CudaGpu(name, uuid, bus, mib * MIB, capability)


FAST = gpu("NVIDIA GeForce RTX 4090", A, "0000:41:00.0", 24080)
DISPLAY = gpu("NVIDIA GeForce GTX 1650", B, "0000:01:00.0", 3903, (7, 5))
OLD = gpu("NVIDIA GeForce GT 1030", C, "0000:01:00.0", 1998, (6, 1))
SLICE = gpu("NVIDIA A100-SXM4-40GB MIG 3g.20gb", B, "0000:07:00.0", 19968, (8, 0))
SPARK = replace(gpu("NVIDIA GB10", A, "000F:01:00.0", 124610, (12, 1)), is_integrated=True)
HOPPER = gpu("NVIDIA GH200 480GB", A, "0009:01:00.0", 96768, (9, 0))
H100 = gpu("NVIDIA H100 80GB HBM3", A, "0000:19:00.0", 81079, (9, 0))
BOTH = (
    f"GPU-{B}, 00000000:01:00.0, 3100, 4096, NVIDIA GeForce GTX 1650\n"
    f"GPU-{A}, 00000000:41:00.0, 23502, 24564, NVIDIA GeForce RTX 4090\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.144\n"
JETSON = "[N/A], [N/A], [N/A], [N/A], Orin (nvgpu)\n"
NO_UUID = "00000000-0000-0000-0000-000000000000"
VIRTUAL = gpu("GRID T4-8Q", NO_UUID, "0000:02:00.0", 8128, (7, 5))
LOST = "Unable to determine the device handle for GPU0000:08:00.0: Unknown Error\n"
SMALL_FREE = Memory("cuda:1", 3100 * MIB, 3903 * MIB)


@dataclass(frozen=True)
class Case:
    """What nvidia-smi prints, which GPUs CUDA has, and the memories that follow."""

    listed: str
    gpus: tuple[CudaGpu, ...]
    expected: tuple[Memory, ...]
    version: tuple[int, int] = (13, 0)
    cuda: tuple[int, int] = CUDA


def usual(number: int, gpu: CudaGpu) -> Memory:
    return Memory(f"cuda:{number}", 0, gpu.total).usual


FREE = Memory("cuda:0", 23502 * MIB, 24080 * MIB)
CASES = {
    "a display GPU in the first slot": Case(BOTH, (FAST, DISPLAY), (FREE, SMALL_FREE)),
    "CUDA_DEVICE_ORDER=PCI_BUS_ID": Case(
        BOTH, (DISPLAY, FAST), (replace(SMALL_FREE, device="cuda:0"), replace(FREE, device="cuda:1"))
    ),
    "CUDA_VISIBLE_DEVICES names one": Case(BOTH, (FAST,), (FREE,)),
    "CUDA_VISIBLE_DEVICES hides all": Case(BOTH, (), ()),
    "matched by bus id": Case(BOTH.replace(f"GPU-{A}", "[N/A]"), (replace(FAST, uuid=""),), (FREE,)),
    "torch without CUDA": Case(BOTH, (FAST, DISPLAY), (), cuda=(0, 0)),
    "an old driver": Case(BOTH, (FAST, DISPLAY), (), version=(12, 8)),
    "a newer driver": Case(BOTH, (FAST,), (FREE,), version=(13, 3), cuda=(12, 6)),
    "a display GPU that is too old": Case(
        BOTH.replace(B, C).replace("GTX 1650", "GT 1030"), (FAST, OLD), (FREE,)
    ),
    "only a GPU that is too old": Case(
        f"GPU-{C}, 00000000:01:00.0, 1500, 2048, NVIDIA GeForce GT 1030\n", (OLD,), ()
    ),
    "the same GPU and torch for an older CUDA": Case(
        f"GPU-{C}, 00000000:01:00.0, 1500, 2048, NVIDIA GeForce GT 1030\n",
        (OLD,), (Memory("cuda:0", 1500 * MIB, 1998 * MIB),), (12, 8), (12, 6),
    ),
    "Blackwell and torch for an older CUDA": Case(
        f"GPU-{A}, 00000000:01:00.0, 30000, 32607, NVIDIA GeForce RTX 5090\n",
        (gpu("NVIDIA GeForce RTX 5090", A, "0000:01:00.0", 32109, (12, 0)),), (), (13, 0), (12, 6),
    ),
    "a part of a GPU (MIG)": Case(
        f"GPU-{A}, 00000000:07:00.0, [N/A], [N/A], NVIDIA A100-SXM4-40GB\n", (SLICE,), (usual(0, SLICE),)
    ),
    "a part of a GPU whose whole is listed": Case(
        f"GPU-{A}, 00000000:07:00.0, 40326, 40960, NVIDIA A100-SXM4-40GB\n", (SLICE,), (usual(0, SLICE),)
    ),
    "a part that has its GPU's uuid": Case(
        f"GPU-{B}, 00000000:07:00.0, 40326, 40960, NVIDIA A100-SXM4-40GB\n", (SLICE,), (usual(0, SLICE),)
    ),
    "a part of a GPU in a container": Case(
        f"GPU-{A}, 00000000:07:00.0, [Insufficient Permissions], [Insufficient Permissions], NVIDIA A100\n",
        (SLICE,), (usual(0, SLICE),),
    ),
    "GB10 shares the machine's memory": Case(
        f"GPU-{A}, 0000000F:01:00.0, [N/A], [N/A], NVIDIA GB10\n", (SPARK,), (replace(OWN, device="cuda:0"),)
    ),
    "an integrated GPU that lists a share": Case(
        f"GPU-{A}, 0000000F:01:00.0, 7929, 8128, NVIDIA N1X\n", (SPARK,), (replace(OWN, device="cuda:0"),)
    ),
    "GH200 has memory of its own": Case(
        f"GPU-{A}, 00000009:01:00.0, 96000, 97871, NVIDIA GH200 480GB\n",
        (HOPPER,), (Memory("cuda:0", 96000 * MIB, 96768 * MIB),),
    ),
    "GH200 whose memory is not listed": Case(
        f"GPU-{A}, 00000009:01:00.0, [N/A], [N/A], NVIDIA GH200 480GB\n", (HOPPER,), (usual(0, HOPPER),)
    ),
    "an idle GPU is wholly free": Case(
        f"GPU-{A}, 00000000:19:00.0, 81156, 81559, NVIDIA H100 80GB HBM3\n",
        (H100,), (Memory("cuda:0", 81079 * MIB, 81079 * MIB),),
    ),
    "[Not Supported]": Case(
        f"GPU-{A}, 0000:41:00.0, [Not Supported], [Not Supported], GeForce\n", (FAST,), (usual(0, FAST),)
    ),
    "0 of 0 MiB": Case(
        f"GPU-{A}, 00000000:41:00.0, 0, 0, NVIDIA GeForce RTX 4090\n", (FAST,), (usual(0, FAST),)
    ),
    "a full GPU": Case(
        f"GPU-{A}, 00000000:41:00.0, 0, 24564, NVIDIA GeForce RTX 4090\n",
        (FAST,), (Memory("cuda:0", 0, 24080 * MIB),),
    ),
    "ERR!": Case(f"GPU-{A}, 00000000:41:00.0, ERR!, ERR!, ERR!\n", (FAST,), (usual(0, FAST),)),
    "[Unknown Error]": Case(
        "[Unknown Error], 00000000:41:00.0, [Unknown Error], 24564, [Unknown Error]\n",
        (FAST,), (usual(0, FAST),),
    ),
    "a lost GPU beside one that works": Case(
        LOST + f"GPU-{A}, 00000000:41:00.0, 23502, 24564, NVIDIA GeForce RTX 4090\n", (FAST,), (FREE,)
    ),
    "NVML of another version while CUDA works": Case(MISMATCH, (FAST,), (usual(0, FAST),)),
    "two parts of one uuid (vGPU)": Case(
        f"GPU-{NO_UUID}, 00000000:02:00.0, 100, 8192, GRID T4-8Q\n"
        f"GPU-{NO_UUID}, 00000000:03:00.0, 8000, 8192, GRID T4-8Q\n",
        (replace(VIRTUAL, bus_id="0000:03:00.0"), VIRTUAL),
        (Memory("cuda:0", 8000 * MIB, 8128 * MIB), Memory("cuda:1", 100 * MIB, 8128 * MIB)),
    ),
    "a Jetson": Case(
        JETSON, (replace(SPARK, name="Orin", capability=(8, 7)),), (replace(OWN, device="cuda:0"),)
    ),
    "nvidia-smi is missing": Case("", (FAST, DISPLAY), (usual(0, FAST), usual(1, DISPLAY))),
    "No devices were found": Case("No devices were found\n", (), ()),
    "Windows' lines": Case(BOTH.replace("\n", "\r\n"), (FAST, DISPLAY), (FREE, SMALL_FREE)),
    "sizes with units": Case(BOTH.replace(", NVIDIA", " MiB, NVIDIA"), (FAST,), (FREE,)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_machine_has_the_memory_of_the_gpus_that_torch_uses(name: str) -> None:
    case = CASES[name]
    listed = list(parse_listed(case.listed))
    used = usable_gpus(CudaDriver(case.version, case.gpus), case.cuda, listed)
    assert tuple(memory_of(number, one, listed, OWN) for number, one in used) == case.expected


def test_nvidia_smi_alone_is_believed_if_the_driver_does_not_answer() -> None:
    listed = list(parse_listed(BOTH + f"GPU-{C}, 00000000:09:00.0, [N/A], [N/A], NVIDIA GB10\n"))
    unknown = parse_driver("")
    found = [memory_of(number, one, listed, OWN) for number, one in usable_gpus(unknown, CUDA, listed)]
    assert found == [Memory("cuda:0", 3100 * MIB, 4096 * MIB), Memory("cuda:1", 23502 * MIB, 24564 * MIB)]
    assert usable_gpus(unknown, (0, 0), listed) == []


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (MISMATCH, "Failed to initialize NVML: Driver/library version mismatch"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that",
         "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that"),
        ("Failed to initialize NVML: Unknown Error\n", "Failed to initialize NVML: Unknown Error"),
        (LOST + "No devices were found\n", LOST.strip()),
        ("No devices were found\n", ""),
        ("", ""),
        (BOTH, ""),
        (JETSON, ""),
        (LOST + BOTH, ""),
    ],
)  # fmt: skip
def test_a_driver_that_does_not_work_is_quoted(output: str, fault: str) -> None:
    assert parse_fault(output) == fault


def test_the_cuda_of_torch_is_read_from_its_files(tmp_path: Path) -> None:
    def built(text: str) -> tuple[int, int]:
        (tmp_path / "version.py").write_text(text, encoding="utf-8")
        return cuda_of_torch(lambda name: ModuleSpec(name, None, origin=str(tmp_path / "__init__.py")))

    assert built("__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n") == (13, 0)
    assert built("cuda = '12.6'\n") == (12, 6)
    assert built("cuda: Optional[str] = None\nhip: Optional[str] = '7.1'\n") == (0, 0)
    (tmp_path / "version.py").unlink()
    assert cuda_of_torch(lambda name: ModuleSpec(name, None, origin=str(tmp_path / "x.py"))) == (0, 0)
    assert cuda_of_torch(lambda _name: None) == (0, 0)


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs gcc")
def test_the_driver_is_asked_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real programs, with a library and a tool that tell of two GPUs."""
    tool = tmp_path / "nvidia-smi"
    version = 'case "$*" in *driver_version*) echo 580.95.05; echo 580.95.05; exit;; esac'
    tool.write_text(f"#!/bin/sh\n{version}\ncat <<'END'\n{BOTH}END\nexit 1\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name, value in fake_cuda.build(tmp_path / "cuda", (FAST, SPARK)).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(gpus, "cuda_of_torch", lambda: CUDA)
    cuda_driver.cache_clear()
    try:
        assert cuda_driver() == CudaDriver((13, 0), (FAST, SPARK))
        assert gpu_memories(OWN) == [FREE, replace(OWN, device="cuda:1")]
        assert [gpu_name(f"cuda{number}") for number in ("", ":0", ":1", ":2")] == [
            FAST.name, FAST.name, SPARK.name, "",
        ]  # fmt: skip
        fake_cuda.build(tmp_path / "cuda", (), 12080, fault=100)
        cuda_driver.cache_clear()
        assert cuda_driver() == CudaDriver((12, 8), ())
        assert driver_version() == "580.95.05"
        assert [one.name for one in listed_gpus()] == [DISPLAY.name, FAST.name] and driver_fault() == ""
        tool.write_text("#!/bin/sh\necho Failed to initialize NVML; exit 18\n", encoding="utf-8")
        assert driver_version() == "CUDA 12.8" and driver_fault() == "Failed to initialize NVML"
    finally:
        cuda_driver.cache_clear()


def test_no_console_appears_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[object] = []

    def run(command: list[str], **named: object) -> subprocess.CompletedProcess[bytes]:
        flags.append(named["creationflags"])
        return subprocess.CompletedProcess(command, 0, b"")

    monkeypatch.setattr(subprocess, "CREATE_NO_WINDOW", 0x08000000, raising=False)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(programs, "find_program", lambda name: name)
    monkeypatch.setattr(gpus, "cuda_of_torch", lambda: CUDA)
    cuda_driver.cache_clear()
    gpu_memories(OWN)
    cuda_driver.cache_clear()
    assert flags == [0x08000000] * 2, "nvidia-smi and the process that asks the driver"
