"""The name of what a model runs on."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

SECONDS = 5.0


def machine_name(device: str) -> str:
    """The processor of this device and the system: "AMD Ryzen 7 7840U, Linux". Takes a moment."""
    name = _gpu(device) if device.startswith("cuda") else ""
    return ", ".join(filter(None, (name or processor_name(), platform.system())))


def processor_name() -> str:
    """The processor as the system names it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        return parse_cpuinfo(info.read_text(encoding="utf-8")) or platform.machine()
    if sys.platform == "darwin":
        return _mac_processor() or platform.machine()
    return platform.processor() or platform.machine()


def parse_cpuinfo(text: str) -> str:
    """The first `model name` of /proc/cpuinfo; "" where it has none, as on ARM."""
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == "model name"), "")


def _mac_processor() -> str:
    try:
        told = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip()


def _gpu(device: str) -> str:
    """The driver's own tool knows it; "" where it does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    number = device.partition(":")[2] or "0"
    query = (tool, f"--id={number}", "--query-gpu=name", "--format=csv,noheader")
    try:
        told = subprocess.run(query, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip()
