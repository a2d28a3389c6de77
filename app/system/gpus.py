"""Finds the NVIDIA GPUs that torch uses, with torch's numbers, and their free memory. Does not import torch.

CUDA's driver reports which GPUs there are (cuda_main.py), nvidia-smi reports their free memory, and torch's files
state the CUDA version that torch was built for. Rows of nvidia-smi are matched by uuid or bus id, because the
numbers may differ.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from app.system.child_process import python_command
from app.system.programs import SECONDS, answer_of, program_output
from app.values.model import Memory

FIELDS = "uuid,pci.bus_id,memory.free,memory.total,name"
NOTHING = "no devices were found"
"""The message of nvidia-smi if its driver works and finds no GPU."""
MAIN = Path(__file__).with_name("cuda_main.py")
WHOLE = 0.8
"""A device with at least this share of the memory that nvidia-smi reports is a whole GPU; any other is a part of
a GPU (MIG)."""
BLACKWELL, CUDA_FOR_BLACKWELL = (10, 0), (12, 8)
OLDEST = {13: (7, 5)}
"""The oldest compute capability for which torch is built, by the major version of its CUDA."""
OLDEST_ELSE = (5, 0)
_BUS_ID = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.[0-7])?", re.IGNORECASE)
_MIB = re.compile(r"([0-9]+)(?:\s*MiB)?")
_VERSION = re.compile(r"^cuda\b[^=\n]*=\s*['\"](\d+)\.(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CudaGpu:
    """A GPU or a part of a GPU, as CUDA and torch.cuda.get_device_properties describe it. `total` is in bytes.

    An integrated GPU has no memory of its own, but shares the machine's."""

    name: str
    uuid: str
    bus_id: str
    total: int
    capability: tuple[int, int]
    is_integrated: bool = False


@dataclass(frozen=True, slots=True)
class CudaDriver:
    """The newest CUDA that the driver runs, such as (13, 0), and its GPUs in torch's order.

    `is_known` is false if the driver did not answer."""

    version: tuple[int, int] = (0, 0)
    gpus: tuple[CudaGpu, ...] = ()
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """A row of nvidia-smi. Sizes are in bytes, or None if nvidia-smi prints no number (`[N/A]`)."""

    uuid: str
    bus_id: str
    free: int | None
    total: int | None
    name: str


def listed_gpus(seconds: float = SECONDS) -> list[ListedGpu]:
    """Return the GPUs that nvidia-smi lists, even if it fails afterwards; [] if it is missing or lists none."""
    return list(parse_listed(_nvidia_smi(seconds)))


def driver_fault(seconds: float = SECONDS) -> str:
    """Return the fault that nvidia-smi prints instead of a list of GPUs (`parse_fault`)."""
    return parse_fault(_nvidia_smi(seconds))


def parse_fault(output: str) -> str:
    """Return the first line of nvidia-smi's output, which describes a fault if no GPU is listed.

    Returns "" if a GPU is listed, or if the output only says that there are no devices."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and NOTHING not in line.lower()]
    return lines[0][:200].rstrip(".") if lines and not any(parse_listed(output)) else ""


def driver_version() -> str:
    """Return the NVIDIA driver's version, such as "580.95.05", or else its CUDA version, such as "CUDA 13.0"."""
    listed = re.findall(r"^[0-9]+(?:\.[0-9]+)+$", _nvidia_smi(SECONDS, "driver_version"), re.MULTILINE)
    return listed[0] if listed else "CUDA {}.{}".format(*cuda_driver().version)


def _nvidia_smi(seconds: float, fields: str = FIELDS) -> str:
    arguments = (f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    # If one of several GPUs does not answer, nvidia-smi fails, but lists the other GPUs.
    return answer_of("nvidia-smi", *arguments, seconds=seconds, must_succeed=False)


def parse_listed(output: str) -> Iterator[ListedGpu]:
    """Yield a GPU for each line such as `GPU-8932f937-…, 00000000:01:00.0, 143156, 143771, NVIDIA H200`.

    A Jetson's integrated GPU has no ids: `[N/A], [N/A], [N/A], [N/A], Orin (nvgpu)`. Other lines, such as a
    driver's fault, are left out."""
    for line in output.splitlines():
        parts = [part.strip() for part in line.split(",", 4)]
        if len(parts) == 5 and (_uuid(parts[0]) or _bus_of(parts[1]) or parts[0] == "[N/A]"):
            yield ListedGpu(parts[0], parts[1], _bytes(parts[2]), _bytes(parts[3]), parts[4])


def cuda_of_torch(find: Callable[[str], ModuleSpec | None] = find_spec) -> tuple[int, int]:
    """Return the CUDA version for which torch was built; (0, 0) for a torch without CUDA, or without torch."""
    spec = find("torch")
    file = Path(spec.origin).with_name("version").with_suffix(".py") if spec and spec.origin else None
    try:
        built = _VERSION.search(file.read_text(encoding="utf-8")) if file else None
    except OSError:
        return (0, 0)
    return (int(built[1]), int(built[2])) if built else (0, 0)


@lru_cache(maxsize=1)
def cuda_driver() -> CudaDriver:
    """Ask CUDA's driver for its GPUs, in a child process. The answer is cached."""
    return parse_driver(program_output(python_command("-I", "-S", str(MAIN))))


def parse_driver(output: str) -> CudaDriver:
    """Read the output of cuda_main.py. Without a valid answer, `is_known` is false."""
    try:
        answer = json.loads(output)
        gpus = [CudaGpu(**{**gpu, "capability": tuple(gpu["capability"])}) for gpu in answer["gpus"]]
        return CudaDriver((answer["version"] // 1000, answer["version"] % 1000 // 10), tuple(gpus))
    except (ValueError, TypeError, KeyError):
        return CudaDriver(is_known=False)


def usable_gpus(
    driver: CudaDriver, cuda: tuple[int, int], listed: Sequence[ListedGpu]
) -> list[tuple[int, CudaGpu]]:
    """Return the GPUs that torch, built for this CUDA, can use, with torch's numbers.

    Returns [] if torch cannot use its first GPU, because models run on that GPU. If the driver did not answer,
    returns the GPUs whose memory nvidia-smi lists, numbered in their order."""
    if not driver.is_known:
        known = [CudaGpu(row.name, row.uuid, row.bus_id, row.total, (0, 0)) for row in listed if row.total]
        return list(enumerate(known)) if cuda > (0, 0) else []
    if cuda == (0, 0) or driver.version[0] < cuda[0]:
        return []
    oldest, has_blackwell = OLDEST.get(cuda[0], OLDEST_ELSE), cuda >= CUDA_FOR_BLACKWELL
    usable = [
        (number, gpu)
        for number, gpu in enumerate(driver.gpus)
        if gpu.capability >= oldest and (has_blackwell or gpu.capability < BLACKWELL)
    ]
    return usable if usable and usable[0][0] == 0 else []


def memory_of(number: int, gpu: CudaGpu, listed: Sequence[ListedGpu], own: Memory) -> Memory:
    """Return the memory of a GPU, with the free memory that nvidia-smi reports.

    If nvidia-smi reports none, as for a part of a GPU, the usual share (`Memory.usual`) is assumed. For an
    integrated GPU returns `own`, the machine's main memory, with the GPU's device name."""
    device = f"cuda:{number}"
    if gpu.is_integrated and own.total:
        return replace(own, device=device)
    row = _row_of(gpu, listed)
    if row is None or row.free is None or row.total == 0 or gpu.total < WHOLE * (row.total or 0):
        return Memory(device, 0, gpu.total).usual
    return Memory(device, min(row.free, gpu.total), gpu.total)


def gpu_memories(own: Memory) -> list[Memory]:
    """Return the memory of each GPU that torch can use, in torch's order."""
    cuda = cuda_of_torch()
    if cuda == (0, 0):
        return []
    listed = listed_gpus()
    return [memory_of(number, gpu, listed, own) for number, gpu in usable_gpus(cuda_driver(), cuda, listed)]


def gpu_name(device: str) -> str:
    """Return the name of a GPU such as "cuda:0"; "" if there is none."""
    number = int(device.partition(":")[2] or 0)
    return next((gpu.name for gpu in cuda_driver().gpus[number:]), "")


def _row_of(gpu: CudaGpu, listed: Sequence[ListedGpu]) -> ListedGpu | None:
    """Return the row of this GPU, or of the GPU that it is a part of."""
    same = [row for row in listed if _uuid(row.uuid) == _uuid(gpu.uuid) != ""]
    if len(same) != 1:  # copies of a virtual machine may share a uuid
        same = [row for row in listed if _bus_of(row.bus_id) == _bus_of(gpu.bus_id) is not None]
    return same[0] if same else None


def _uuid(text: str) -> str:
    """Return a GPU's uuid without the prefix GPU-, but with the prefix MIG-; "" if the text is not a uuid."""
    plain = text.strip().lower().removeprefix("gpu-")
    return plain if re.fullmatch(r"(?:mig-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", plain) else ""


def _bus_of(text: str) -> tuple[int, int, int] | None:
    """Return a bus id's domain, bus and device; None if the text is not a bus id.

    Numbers are compared, because programs write the domain with 4 or 8 digits."""
    found = _BUS_ID.fullmatch(text.strip())
    return (int(found[1] or "0", 16), int(found[2], 16), int(found[3], 16)) if found else None


def _bytes(text: str) -> int | None:
    found = _MIB.fullmatch(text)
    return int(found[1]) << 20 if found else None
