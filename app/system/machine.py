"""Asks the system about this machine, without torch: its processor, its GPUs, and how much memory is free."""

import platform
import sys
from functools import lru_cache
from pathlib import Path

import psutil

from app.system.gpus import gpu_memories, gpu_name
from app.system.programs import Which, answer_of, find_compiler, find_program
from app.values.model import Memory

RAM = "cpu"
"""The name of the machine's own memory, as torch calls the device."""


def machine_name(device: str) -> str:
    """Return a torch device's processor and the operating system: "AMD Ryzen 7 7840U, Linux". May run a program of
    the system."""
    name = gpu_name(device) if device.startswith("cuda") else ""
    return ", ".join(filter(None, (name or processor_name(), platform.system())))


def processor_name() -> str:
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
    """Return whether processors of this machine's kind were measured to be fastest with weights in int8.

    These are x86 CPUs under Linux with a compiler for our kernels (docs/benchmarks.md). The answer is
    cached, because a list of models asks for each model."""
    name, machine = system or (platform.system(), platform.machine())
    is_known = name == "Linux" and machine in ("x86_64", "AMD64")
    return is_known and bool(find_compiler(which))


def memories() -> list[Memory]:
    """Return the memory of each device that torch can use: GPUs first, then the machine's own."""
    own = ram()
    return [*gpu_memories(own), own]


def ram() -> Memory:
    found = psutil.virtual_memory()
    return Memory(RAM, found.available, found.total)
