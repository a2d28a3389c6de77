"""How much memory this process takes and may take, told by the system; known without torch."""

import sys
from contextlib import suppress
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    """What the process takes now; 0 where the system does not tell."""
    return _kilobytes("VmRSS") << 10


def peak_bytes() -> int:
    """What it took at most since `restart_peak`; 0 where the system does not tell."""
    return _kilobytes("VmHWM") << 10


def address_space_left() -> int:
    """Bytes of address space that the process may still take; a very large number where nobody limits it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    taken = _kilobytes("VmSize") << 10
    return limit - taken if taken and limit != resource.RLIM_INFINITY else sys.maxsize


def restart_peak() -> None:
    """From now on the peak counts anew, if the system lets us say so."""
    with suppress(OSError):
        RESET.write_text("5", encoding="ascii")


def _kilobytes(key: str) -> int:
    try:
        lines = STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), 0)
