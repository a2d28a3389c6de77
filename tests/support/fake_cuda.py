"""CUDA's driver library as this machine's compiler makes it: it has the GPUs that a test names."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from app.system.gpus import CudaGpu

SOURCE = """
#include <string.h>
typedef struct {{
    const char *name, *bus; unsigned char uuid[16]; size_t total; int major, minor, integrated;
}} Gpu;
static const Gpu gpus[] = {{ {gpus} {{0}} }};
int cuInit(unsigned flags) {{ return flags ? 1 : {fault}; }}
int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}
int cuDeviceGetCount(int *count) {{ *count = {count}; return 0; }}
int cuDeviceGet(int *device, int number) {{ *device = number; return 0; }}
int cuDeviceGetName(char *name, int size, int device) {{ strncpy(name, gpus[device].name, size); return 0; }}
int cuDeviceGetPCIBusId(char *bus, int size, int device) {{ strncpy(bus, gpus[device].bus, size); return 0; }}
int cuDeviceTotalMem_v2(size_t *total, int device) {{ *total = gpus[device].total; return 0; }}
int cuDeviceGetUuid(void *uuid, int device) {{ memcpy(uuid, gpus[device].uuid, 16); return 0; }}
int cuDeviceGetAttribute(int *value, int which, int device) {{
    const Gpu *gpu = &gpus[device];
    *value = which == 75 ? gpu->major : which == 76 ? gpu->minor : which == 18 ? gpu->integrated : -1;
    return 0;
}}
"""


def build(folder: Path, gpus: Sequence[CudaGpu], version: int = 13000, fault: int = 0) -> dict[str, str]:
    """Compile the library into this folder. Returns the environment variables with which it is found."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "cuda.c"
    rows = "".join(f"{_row(gpu)}, " for gpu in gpus)
    source.write_text(
        SOURCE.format(gpus=rows, count=len(gpus), version=version, fault=fault), encoding="utf-8"
    )
    compiler = shutil.which("gcc")
    assert compiler
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libcuda.so.1", source], check=True)
    return {"LD_LIBRARY_PATH": str(folder)}


def _row(gpu: CudaGpu) -> str:
    uuid = ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(gpu.uuid.replace("-", "")))
    major, minor = gpu.capability
    numbers = f"{gpu.total}UL, {major}, {minor}, {int(gpu.is_integrated)}"
    return f'{{"{gpu.name}", "{gpu.bus_id}", {{{uuid}}}, {numbers}}}'
