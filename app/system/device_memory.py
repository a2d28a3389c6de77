"""What memory this machine has free, without torch: the system is asked, and the driver's own tool."""

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

from app.system.programs import answer_of
from app.values.model import Memory

RAM = "cpu"
"""The name of the machine's own memory, as torch calls the device."""
PREFIX_SHARE = 0.05
"""The share of free memory in which the prefixes of other conversations are kept."""
QUERY = ("--query-gpu=name,memory.free,memory.total", "--format=csv,noheader,nounits")


def memories() -> list[Memory]:
    """The memory of each device: GPUs first, then the machine's own."""
    return [*gpu_memories(), ram()]


def gpu_memories() -> list[Memory]:
    """What nvidia-smi tells of each GPU; nothing where there is none."""
    return list(parse_gpus(answer_of("nvidia-smi", *QUERY)))


def parse_gpus(output: str) -> Iterator[Memory]:
    """`NVIDIA H200, 143156, 143771` a line, in MiB."""
    for number, line in enumerate(output.splitlines()):
        parts = [part.strip() for part in line.rsplit(",", 2)]
        if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
            yield Memory(f"cuda:{number}", int(parts[1]) << 20, int(parts[2]) << 20)


def ram() -> Memory:
    """The machine's memory; where the system does not tell, nothing is free."""
    if sys.platform == "win32":
        return _windows_ram()
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        return parse_meminfo(meminfo.read_text(encoding="utf-8"))
    return _mac_ram()


def parse_meminfo(text: str) -> Memory:
    """`MemAvailable:   1024 kB` and the like."""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    kilobytes = {key: int(value.split()[0]) for key, value in lines.items() if value.split()}
    total = kilobytes.get("MemTotal", 0) << 10
    free = kilobytes.get("MemAvailable", kilobytes.get("MemFree", 0)) << 10
    return Memory(RAM, min(free, total), total)


def _mac_ram() -> Memory:
    size, pages = answer_of("sysctl", "-n", "hw.memsize").strip(), answer_of("vm_stat")
    total = int(size) if size.isdecimal() and pages else 0
    return Memory(RAM, min(parse_vm_stat(pages), total), total)


def parse_vm_stat(text: str) -> int:
    """Free, inactive and speculative pages, in bytes."""
    first, *lines = text.splitlines() or [""]
    size = next((int(word) for word in first.split() if word.isdecimal()), 4096)
    counts = {key: value.strip(" .") for key, _, value in (line.partition(":") for line in lines)}
    wanted = ("Pages free", "Pages inactive", "Pages speculative")
    return size * sum(int(counts[key]) for key in wanted if counts.get(key, "").isdecimal())


class _MemoryStatus(ctypes.Structure):
    """What GlobalMemoryStatusEx fills in."""

    _fields_ = (
        ("length", ctypes.c_ulong),
        ("load", ctypes.c_ulong),
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        *(
            (name, ctypes.c_ulonglong)
            for name in ("total_page", "free_page", "total_virtual", "free_virtual", "x")
        ),
    )


def _windows_ram() -> Memory:
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined, unused-ignore]
    return Memory(RAM, int(status.free), int(status.total))
