"""What was measured of a model's step, remembered in small JSON files: one for each model, machine and library.

A file says for what it was measured and is believed only for exactly that, so that another model, precision,
device, number of threads or release of a library is measured anew. Notes are a courtesy: a folder that cannot be
written and a file that makes no sense cost a measurement, never a reply.
"""

import json
import logging
import os
import platform
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import torch
import transformers
from transformers import PreTrainedModel

from app import __version__
from app.engine.step_times import StepProfile, StepTimes
from app.messages import ModelInfo

log = logging.getLogger(__name__)

Subject = dict[str, str]
"""What a note is about: all that a step's time and bits depend on."""


class Notes(Protocol):
    """Where profiles are remembered."""

    def read(self, subject: Subject) -> StepProfile:
        """What is known about a subject; a profile without times where nothing is."""

    def write(self, subject: Subject, profile: StepProfile) -> None:
        """Remember a profile, if that can be done."""


def subject_of(model: PreTrainedModel, info: ModelInfo) -> Subject:
    """The model, how its layers are made, where it runs, and by which libraries."""
    config = model.config.to_json_string(use_diff=False)
    layers = sorted({f"{type(layer).__module__}.{type(layer).__qualname__}" for layer in model.modules()})
    return {
        "model": f"{info.name} {info.revision} {info.architecture} {info.parameters}",
        "config": _digest(config),
        "layers": _digest(*layers),
        "dtype": info.dtype,
        "device": _device_name(model.device),
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


class Unwritten:
    """Remembers nothing."""

    def read(self, subject: Subject) -> StepProfile:
        """Nothing is known."""
        del subject
        return StepProfile()

    def write(self, subject: Subject, profile: StepProfile) -> None:
        """Forget it."""


class NotesFolder:
    """Notes in a folder, which is made when there is something to write."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, subject: Subject) -> StepProfile:
        """What the subject's file says; a profile without times when it is not there or not to be believed."""
        try:
            note = json.loads(self._file(subject).read_text(encoding="utf-8"))
            return _from_json(note["profile"]) if note["subject"] == subject else StepProfile()
        except FileNotFoundError:
            return StepProfile()
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            log.info("a note on a model's step was not read, so it is measured anew: %s", error)
            return StepProfile()

    def write(self, subject: Subject, profile: StepProfile) -> None:
        """Write the subject's file whole, or leave it as it was."""
        file = self._file(subject)
        draft = file.with_suffix(f".{os.getpid()}.new")  # another process may be writing, too
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            note = {"subject": subject, "profile": asdict(profile)}
            draft.write_text(json.dumps(note, indent=2), encoding="utf-8")
            draft.replace(file)
        except OSError as error:
            log.info("a note on a model's step was not kept: %s", error)
            with suppress(OSError):  # where nothing can be written there may be nothing to remove
                draft.unlink()

    def _file(self, subject: Subject) -> Path:
        return self._path / f"step-{_digest(json.dumps(subject, sort_keys=True))}.json"


def make_notes(folder: Path | None) -> Notes:
    """Notes in a folder, or none at all."""
    return NotesFolder(folder) if folder else Unwritten()


def _from_json(saved: dict[str, Any]) -> StepProfile:
    free, steady = (
        StepTimes(tuple(saved[mode]["widths"]), tuple(map(float, saved[mode]["seconds"])))
        for mode in ("free", "steady")
    )
    classes = tuple(tuple(widths) for widths in saved["classes"])
    return StepProfile(free, steady, classes, str(saved["note"]))
