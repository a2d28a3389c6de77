"""A download in a process of its own, seen from the app: a job goes in, messages come out.

Ending the process ends the traffic, whatever it was waiting for; and all that had come is in its partial files. The
other way round the process ends by itself when its standard input does, so an app that was killed leaves no traffic
behind either.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app import errors
from app.errors import ModelError
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.ids import HubId
from app.models_registry.hub.plan import Plan, plan_from_json
from app.models_registry.hub.retrying import Patience

PACKAGE = Path(__file__).parents[2]
SECONDS_TO_END = 5.0


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


class Child:
    """The process of one download. `kill` may be called from any thread, at any time."""

    def __init__(self, job: Job) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "app.models_registry.downloads.child_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(job.endpoint),
            start_new_session=True,  # Ctrl+C in the terminal is ours to answer
        )
        self._send(job)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def messages(self) -> Iterator[ChildMessage]:
        """What it says until it ends; a killed one ends without a word."""
        assert self._process.stdout
        for line in self._process.stdout:
            if line.endswith(b"\n"):  # the last line of a killed process may be half of one
                yield from_line(line)

    def kill(self) -> None:
        """End it and its traffic; returns when it is gone."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(SECONDS_TO_END)

    def _send(self, job: Job) -> None:
        assert self._process.stdin
        self._process.stdin.write(job.to_line())
        self._process.stdin.flush()


def ended_unexpectedly(repo: str) -> ModelError:
    """The process is gone without a word."""
    return ModelError(f"The download of {repo} ended unexpectedly: resume it. What has come is kept.")


def _environment(endpoint: str | None) -> dict[str, str]:
    """The child's environment: plain HTTP, no telemetry, and this app to import, wherever it lies."""
    paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    ours = {
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    return {**os.environ, **ours, **({"HF_ENDPOINT": endpoint} if endpoint else {})}
