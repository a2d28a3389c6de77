"""Caches measurements of a model in JSON files, one for each kind of measurement, model, machine and set of
libraries.

A file is used only for an equal cache key. If the folder cannot be written or a file is invalid, no reply fails,
and the measurement is repeated.
"""

import json
import logging
import platform
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers
from transformers import PreTrainedModel

from app import __version__
from app.engine.cpu_kernels import SOURCE
from app.engine.machine.compiling import processor_capabilities
from app.system.files import write_file
from app.system.gpus import driver_version
from app.values.dataclass_json import parse_json
from app.values.messages import ModelInfo

log = logging.getLogger(__name__)

T = TypeVar("T")

CacheKey = dict[str, str]
"""Everything that a step's time and exact results depend on."""


def cache_key_of(model: PreTrainedModel, info: ModelInfo) -> CacheKey:
    """Describe the model, its layers, its device, and the libraries and kernels that run it."""
    if model.device.type == "cuda":
        device = torch.cuda.get_device_name(model.device)
    else:
        capabilities = processor_capabilities()
        kind = capabilities.get("cpu_name") or platform.processor() or platform.machine()
        device = f"{kind} {_digest(str(sorted(capabilities.items())))} {torch.get_num_threads()} threads"
    config = model.config.to_json_string(use_diff=False)
    layers = sorted({f"{type(layer).__module__}.{type(layer).__qualname__}" for layer in model.modules()})
    return {
        "model": f"{info.name} {info.revision} {info.architecture} {info.parameters}",
        "config": _digest(config),
        "layers": _digest(*layers),
        "dtype": info.dtype,
        "quantisation": info.weights or info.quantisation,
        "device": device,
        "attention": info.attention,
        **({"steps": "graphs"} if info.graphs else {}),
        **({"offloaded": f"{info.offloaded / 2**30:.0f} GiB"} if info.offloaded else {}),
        **({"devices": f"{len(info.devices)} with a share each"} if info.devices else {}),
        **_of_kernels(model.device),
        "libraries": f"foresight {__version__} torch {torch.__version__} transformers {transformers.__version__}",
    }


def _of_kernels(device: torch.device) -> CacheKey:
    """Describe the kernels: on a GPU our Triton sources, and the versions of Triton and the driver; on other
    devices the C files."""
    if device.type != "cuda":
        return {"kernels": _digest(*SOURCE.texts())}
    try:
        compiler = version("triton")
    except PackageNotFoundError:  # on Windows the package has another name
        compiler = version("triton-windows") if find_spec("triton") else ""
    sources = (file.read_text("utf-8") for file in triton_sources())
    return {"kernels": _digest(*sources), "compiler": f"triton {compiler}", "driver": driver_version()}


def triton_sources() -> list[Path]:
    """Return the files with our Triton kernels and with the code that launches them."""
    engine = Path(__file__).parents[1]
    names = ("attention/*kernels.py", "*/*triton*.py", "layers/packed_weight*.py", "layers/fused_modules.py")
    return sorted({file for name in names for file in engine.glob(name)})


def _digest(*words: str) -> str:
    return sha256("\n".join(words).encode()).hexdigest()[:16]


class MeasurementCache:
    """Stores one value of each kind for each key, in files of a folder; without a folder, nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def read(self, kind: str, subject: CacheKey, decode: Callable[[Any], T], nothing: T) -> T:
        """Read a cached value and decode it; return `nothing` if the file is missing or invalid."""
        if self._folder is None:
            return nothing
        try:
            saved = parse_json(_file(self._folder, kind, subject).read_text(encoding="utf-8"))
            return decode(saved["note"]) if saved["subject"] == subject else nothing
        except FileNotFoundError:
            return nothing
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            log.info("a measurement (%s) was not read, so it is made again: %s", kind, error)
            return nothing

    def write(self, kind: str, subject: CacheKey, note: object) -> None:
        """Store a JSON value. Writes the whole file or leaves it unchanged; an OSError is only logged."""
        if self._folder is None:
            return
        try:
            write_file(_file(self._folder, kind, subject), json.dumps({"subject": subject, "note": note}))
        except OSError as error:
            log.info("a measurement (%s) was not cached: %s", kind, error)


def _file(folder: Path, kind: str, subject: CacheKey) -> Path:
    return folder / f"{kind}-{_digest(json.dumps(subject, sort_keys=True))}.json"
