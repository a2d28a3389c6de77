"""What was found out about a model, remembered in JSON files: for each model, machine and library its own.

A file says for what it was measured and is believed only for exactly that, so that another model, precision,
device, number of threads or release of a library is measured anew. Notes are a courtesy: a folder that cannot be
written and a file that makes no sense cost a measurement, never a reply.
"""

import json
import logging
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
import transformers
from transformers import PreTrainedModel

from app import __version__
from app.messages import ModelInfo

log = logging.getLogger(__name__)

T = TypeVar("T")

CacheKey = dict[str, str]
"""What a note is about: all that a step's time and bits depend on."""


class MeasurementCache(Protocol):
    """Where things are remembered: for each subject one note of each kind."""

    def read(self, kind: str, subject: CacheKey, decode: Callable[[Any], T], nothing: T) -> T:
        """What a note says, decoded; `nothing` where there is none, or none that can be believed."""

    def write(self, kind: str, subject: CacheKey, note: object) -> None:
        """Remember something that JSON can carry, if that can be done."""


def cache_key_of(model: PreTrainedModel, info: ModelInfo) -> CacheKey:
    """The model, how its layers are made, where it runs, and by which libraries."""
    config = model.config.to_json_string(use_diff=False)
    layers = sorted({f"{type(layer).__module__}.{type(layer).__qualname__}" for layer in model.modules()})
    return {
        "model": f"{info.name} {info.revision} {info.architecture} {info.parameters}",
        "config": _digest(config),
        "layers": _digest(*layers),
        "dtype": info.dtype,
        "quantisation": info.quantisation,
        "device": _device_name(model.device),
        "attention": info.attention,
        **({"steps": "graphs"} if info.graphs else {}),
        "libraries": f"foresight {__version__} torch {torch.__version__} transformers {transformers.__version__}",
    }


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    # Older torch releases of the supported range do not tell what the processor can do.
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    kind = capabilities.get("cpu_name") or platform.processor() or platform.machine()
    return f"{kind} {_digest(str(sorted(capabilities.items())))} {torch.get_num_threads()} threads"


def _digest(*words: str) -> str:
    return sha256("\n".join(words).encode()).hexdigest()[:16]


class NoCache:
    """Remembers nothing."""

    def read(self, kind: str, subject: CacheKey, decode: Callable[[Any], T], nothing: T) -> T:
        """Nothing is known."""
        del kind, subject, decode
        return nothing

    def write(self, kind: str, subject: CacheKey, note: object) -> None:
        """Forget it."""


class MeasurementFolder:
    """Notes in a folder, which is made when there is something to write."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, kind: str, subject: CacheKey, decode: Callable[[Any], T], nothing: T) -> T:
        """What the file says; `nothing` when it is not there or not to be believed."""
        try:
            saved = json.loads(self._file(kind, subject).read_text(encoding="utf-8"))
            return decode(saved["note"]) if saved["subject"] == subject else nothing
        except FileNotFoundError:
            return nothing
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            log.info("a note (%s) was not read, so it is made anew: %s", kind, error)
            return nothing

    def write(self, kind: str, subject: CacheKey, note: object) -> None:
        """Write the file whole, or leave it as it was."""
        file = self._file(kind, subject)
        draft = file.with_suffix(f".{os.getpid()}.new")  # another process may be writing, too
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps({"subject": subject, "note": note}), encoding="utf-8")
            draft.replace(file)
        except OSError as error:
            log.info("a note (%s) was not kept: %s", kind, error)
            with suppress(OSError):  # where nothing can be written there may be nothing to remove
                draft.unlink()

    def _file(self, kind: str, subject: CacheKey) -> Path:
        return self._path / f"{kind}-{_digest(json.dumps(subject, sort_keys=True))}.json"


def open_cache(folder: Path | None) -> MeasurementCache:
    """Notes in a folder, or none at all."""
    return MeasurementFolder(folder) if folder else NoCache()
