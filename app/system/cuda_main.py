"""Prints which GPUs CUDA finds on this machine, as the driver's library reports them: `python cuda_main.py`.

The library numbers GPUs as torch does, and counts a part of a GPU (MIG) as a GPU. This program imports nothing of
the app, and is a separate process, because a broken driver may hang or crash.
"""

import json
import sys
from ctypes import CDLL, byref, c_char, c_int, c_size_t, c_ubyte
from typing import Any
from uuid import UUID

LIBRARIES = {"win32": "nvcuda.dll"}
LIBRARY = "libcuda.so.1"
INTEGRATED, MAJOR, MINOR = 18, 75, 76
"""Numbers of CUdevice_attribute."""


def found(library: Any) -> dict[str, Any]:
    """Return the newest CUDA version that the driver runs, such as 13000, and its GPUs in CUDA's order."""
    version, count = c_int(), c_int()
    library.cuDriverGetVersion(byref(version))
    if library.cuInit(0) == 0:
        library.cuDeviceGetCount(byref(count))
    return {"version": version.value, "gpus": [_gpu(library, number) for number in range(count.value)]}


def _gpu(library: Any, number: int) -> dict[str, Any]:
    device, name, bus, uuid, total = c_int(), (c_char * 256)(), (c_char * 32)(), (c_ubyte * 16)(), c_size_t()
    library.cuDeviceGet(byref(device), number)
    library.cuDeviceGetName(name, len(name), device)
    library.cuDeviceGetPCIBusId(bus, len(bus), device)
    library.cuDeviceTotalMem_v2(byref(total), device)
    # The older function returns the uuid of the whole GPU for each of its parts.
    getattr(library, "cuDeviceGetUuid_v2", library.cuDeviceGetUuid)(uuid, device)
    return {
        "name": name.value.decode(errors="replace"),
        "uuid": str(UUID(bytes=bytes(uuid))),
        "bus_id": bus.value.decode(errors="replace"),
        "total": total.value,
        "capability": [_attribute(library, which, device) for which in (MAJOR, MINOR)],
        "is_integrated": bool(_attribute(library, INTEGRATED, device)),
    }


def _attribute(library: Any, which: int, device: c_int) -> int:
    value = c_int()
    library.cuDeviceGetAttribute(byref(value), which, device)
    return value.value


if __name__ == "__main__":
    try:
        driver = CDLL(LIBRARIES.get(sys.platform, LIBRARY))
    except OSError:  # there is no driver
        answer: dict[str, Any] = {"version": 0, "gpus": []}
    else:
        answer = found(driver)
    json.dump(answer, sys.stdout)
