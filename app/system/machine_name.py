"""The name of the processor or GPU that a model runs on."""

import platform
import sys
from pathlib import Path

from app.system.programs import answer_of


def machine_name(device: str) -> str:
    """The processor of a torch device, and the system: "AMD Ryzen 7 7840U, Linux". Takes a moment."""
    name = _gpu(device) if device.startswith("cuda") else ""
    return ", ".join(filter(None, (name or processor_name(), platform.system())))


def processor_name() -> str:
    """The processor's name according to the system."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        return parse_cpuinfo(info.read_text(encoding="utf-8")) or platform.machine()
    if sys.platform == "darwin":
        return _mac_processor() or platform.machine()
    return platform.processor() or platform.machine()


def parse_cpuinfo(text: str) -> str:
    """The first `model name` in /proc/cpuinfo; "" if there is none, as on ARM."""
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == "model name"), "")


def _mac_processor() -> str:
    return answer_of("sysctl", "-n", "machdep.cpu.brand_string").strip()


def _gpu(device: str) -> str:
    """The GPU's name according to nvidia-smi; "" if that fails."""
    number = device.partition(":")[2] or "0"
    return answer_of("nvidia-smi", f"--id={number}", "--query-gpu=name", "--format=csv,noheader").strip()
