"""A download in a process of its own, seen from the app: a job goes in, messages come out.

Ending the process ends the traffic, whatever it was waiting for; and all that had come is in its partial files.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app import errors
from app.child_process import ChildProcess
from app.errors import ModelError
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.ids import HubId
from app.models_registry.hub.plan import Plan, plan_from_json
from app.models_registry.hub.retrying import Patience


@dataclass(frozen=True, slots=True)
class Job:
    """What a child is to fetch: by its plan, or by its name alone, which it then looks up first."""

    wanted: HubId
    plan: Plan | None = None
    endpoint: str | None = None
    root: Path | None = None
    patience: Patience = field(default_factory=Patience)

    def to_line(self) -> bytes:
        """The job as one line."""
        values = asdict(self) | {"root": str(self.root) if self.root else None}
        return json.dumps(values).encode() + b"\n"


def job_from_line(line: bytes) -> Job:
    """The job that was written by `to_line`."""
    values: dict[str, Any] = json.loads(line)
    return Job(
        wanted=HubId(**values["wanted"]),
        plan=plan_from_json(values["plan"]) if values["plan"] else None,
        endpoint=values["endpoint"],
        root=Path(values["root"]) if values["root"] else None,
        patience=Patience(**values["patience"]),
    )


def job_of(hub: Hub, wanted: HubId, plan: Plan | None) -> Job:
    """The job to fetch this model from this hub."""
    return Job(wanted, plan, hub.endpoint, hub.cache, hub.patience)


@dataclass(frozen=True, slots=True)
class Planned:
    """The files are known."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Moved:
    """How many bytes of each file are here, and a sentence if there is something to say."""

    done: Mapping[str, int]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Installed:
    """All files are here, checked, in this folder."""

    folder: Path


@dataclass(frozen=True, slots=True)
class Failed:
    """It cannot go on; `kind` is the name of an error of ours."""

    kind: str
    sentence: str

    def error(self) -> ModelError:
        """The error that the child ended with."""
        kind = getattr(errors, self.kind, ModelError)
        is_ours = isinstance(kind, type) and issubclass(kind, ModelError)
        return kind(self.sentence) if is_ours else ModelError(self.sentence)


ChildMessage = Planned | Moved | Installed | Failed


def to_line(message: ChildMessage) -> bytes:
    """A message as one line of JSON."""
    values = asdict(message)
    return json.dumps({"is": type(message).__name__, **values}, default=str).encode() + b"\n"


def from_line(line: bytes) -> ChildMessage:
    """The message that was written by `to_line`."""
    values: dict[str, Any] = json.loads(line)
    match values.pop("is"):
        case "Planned":
            return Planned(plan_from_json(values["plan"]))
        case "Moved":
            return Moved(**values)
        case "Installed":
            return Installed(Path(values["folder"]))
    return Failed(**values)


class Child(ChildProcess):
    """The process of one download."""

    def __init__(self, job: Job) -> None:
        super().__init__(
            "app.models_registry.downloads.child_main", job.to_line(), _environment(job.endpoint)
        )

    def messages(self) -> Iterator[ChildMessage]:
        """What it says until it ends; a killed one ends without a word."""
        return map(from_line, self.lines())


def ended_unexpectedly(repo: str) -> ModelError:
    """The process is gone without a word."""
    return ModelError(f"The download of {repo} ended unexpectedly: resume it. What has come is kept.")


def _environment(endpoint: str | None) -> dict[str, str]:
    """What a download's environment says beside the app's: plain HTTP, and no telemetry."""
    ours = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    return {**ours, **({"HF_ENDPOINT": endpoint} if endpoint else {})}
