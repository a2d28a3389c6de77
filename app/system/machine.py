"""Asks the system about this machine, without torch: its processor, its GPUs, and how much memory is free."""

import ctypes
import platform
import sys
from functools import lru_cache
from pathlib import Path

from app.system.gpus import gpu_memories, gpu_name
from app.system.programs import Which, answer_of, find_compiler, find_program
from app.values.model import Memory

RAM = "cpu"
"""The name of the machine's own memory, as torch calls the device."""
PREFIX_SHARE = 0.05
"""The share of free memory that may hold the prefixes of other conversations."""


def machine_name(device: str) -> str:
    """Return a torch device's processor and the operating system: "AMD Ryzen 7 7840U, Linux". Takes a moment."""
    name = gpu_name(device) if device.startswith("cuda") else ""
    return ", ".join(filter(None, (name or processor_name(), platform.system())))


def processor_name() -> str:
    """Return the processor's name as the system reports it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        return parse_cpuinfo(info.read_text(encoding="utf-8")) or platform.machine()
    if sys.platform == "darwin":
        return answer_of("sysctl", "-n", "machdep.cpu.brand_string").strip() or platform.machine()
    return platform.processor() or platform.machine()


def parse_cpuinfo(text: str) -> str:
    """Return the first `model name` in /proc/cpuinfo; "" if there is none, as on ARM."""
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == "model name"), "")


@lru_cache(maxsize=4)
def multiplies_int8_fast(which: Which = find_program, system: tuple[str, str] | None = None) -> bool:
    """Return whether this machine's processor was measured to be fastest with weights in int8.

    That is an x86 CPU under Linux with a compiler for our kernels: docs/benchmarks.md, "int8, per row". The answer
    is kept, because a list of models asks for each of them."""
    name, machine = system or (platform.system(), platform.machine())
    is_known = name == "Linux" and machine in ("x86_64", "AMD64")
    return is_known and bool(find_compiler(which))


def memories() -> list[Memory]:
    """Return the memory of each device that torch can use: GPUs first, then the machine's own."""
    own = ram()
    return [*gpu_memories(own), own]


def ram() -> Memory:
    """Return the machine's main memory; all sizes are 0 if the system does not report them."""
    if sys.platform == "win32":
        return _windows_ram()
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        return parse_meminfo(meminfo.read_text(encoding="utf-8"))
    return _mac_ram()


def parse_meminfo(text: str) -> Memory:
    """Return the memory from lines such as `MemAvailable:   1024 kB`."""
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
    """Return the size of free, inactive and speculative pages in bytes."""
    first, *lines = text.splitlines() or [""]
    size = next((int(word) for word in first.split() if word.isdecimal()), 4096)
    counts = {key: value.strip(" .") for key, _, value in (line.partition(":") for line in lines)}
    wanted = ("Pages free", "Pages inactive", "Pages speculative")
    return size * sum(int(counts[key]) for key in wanted if counts.get(key, "").isdecimal())


class _MemoryStatus(ctypes.Structure):
    """The structure that GlobalMemoryStatusEx fills in."""

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
