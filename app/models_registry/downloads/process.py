"""A download in a process of its own, seen from the app: a request goes in, messages come out.

Killing the process ends its traffic at once. All downloaded bytes are in its partial files.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app import errors
from app.errors import ModelError
from app.models_registry.hub.download_plan import DownloadPlan, plan_from_json
from app.models_registry.hub.http import RetryPolicy
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId
from app.system.child_process import ChildProcess, understanding
from app.system.environment import HUB_TOKENS
from app.values.messages import Progress
from app.values.validation import require


@dataclass(frozen=True, slots=True)
class DownloadRequest:
    """A model to fetch. Without a plan the process looks its files up first."""

    wanted: HubId
    plan: DownloadPlan | None = None
    endpoint: str | None = None
    root: Path | None = None
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)

    def to_line(self) -> bytes:
        """The request as one line of JSON."""
        values = asdict(self) | {"root": str(self.root) if self.root else None}
        return json.dumps(values).encode() + b"\n"


def request_from_line(line: bytes) -> DownloadRequest:
    """The request that was written by `to_line`."""
    values: dict[str, Any] = json.loads(line)
    return DownloadRequest(
        wanted=HubId(**values["wanted"]),
        plan=plan_from_json(values["plan"]) if values["plan"] else None,
        endpoint=values["endpoint"],
        root=Path(values["root"]) if values["root"] else None,
        retry_policy=RetryPolicy(**values["retry_policy"]),
    )


def download_request(hub: Hub, wanted: HubId, plan: DownloadPlan | None) -> DownloadRequest:
    """The request to fetch this model from this hub."""
    return DownloadRequest(wanted, plan, hub.endpoint, hub.root, hub.retry_policy)


@dataclass(frozen=True, slots=True)
class DownloadPlanned:
    """The files are known."""

    plan: DownloadPlan


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """Downloaded bytes of each file, and a note for the user or ""."""

    done: Mapping[str, int]
    note: str = ""

    def __post_init__(self) -> None:
        are_counts = all(isinstance(count, int) and count >= 0 for count in self.done.values())
        require(are_counts, "bytes must be counts", self.done)
        require(isinstance(self.note, str), "a note must be a text", self.note)


@dataclass(frozen=True, slots=True)
class DownloadFinished:
    """All files are in this folder, and checked; of a GGUF file its path."""

    folder: Path


@dataclass(frozen=True, slots=True)
class DownloadFailed:
    """The download has failed; `kind` is the name of a class in app.errors."""

    kind: str
    sentence: str

    def __post_init__(self) -> None:
        are_texts = isinstance(self.kind, str) and isinstance(self.sentence, str)
        require(are_texts, "an error must have a kind and a sentence", (self.kind, self.sentence))

    def error(self) -> ModelError:
        """The error, to be raised here."""
        kind = getattr(errors, self.kind, ModelError)
        is_ours = isinstance(kind, type) and issubclass(kind, ModelError)
        return kind(self.sentence) if is_ours else ModelError(self.sentence)


DownloadMessage = DownloadPlanned | DownloadProgress | DownloadFinished | DownloadFailed


def to_line(message: DownloadMessage) -> bytes:
    """A message as one line of JSON."""
    values = asdict(message)
    return json.dumps({"is": type(message).__name__, **values}, default=str).encode() + b"\n"


def message_from_line(line: bytes) -> DownloadMessage:
    """The message that was written by `to_line`."""
    values: dict[str, Any] = json.loads(line)
    match values.pop("is"):
        case "DownloadPlanned":
            return DownloadPlanned(plan_from_json(values["plan"]))
        case "DownloadProgress":
            return DownloadProgress(**values)
        case "DownloadFinished":
            return DownloadFinished(Path(values["folder"]))
    return DownloadFailed(**values)


class DownloadProcess(ChildProcess):
    """The process of one download."""

    def __init__(self, request: DownloadRequest) -> None:
        self._repo = request.wanted.repo
        super().__init__(
            "app.models_registry.downloads.process_main", request.to_line(), _environment(request.endpoint)
        )

    def messages(self) -> Iterator[DownloadMessage]:
        """Its messages until it ends. Raises ModelError for one that is none."""
        for line in self.lines():
            with understanding(ended_unexpectedly(self._repo)):
                message = message_from_line(line)
            yield message


def ended_unexpectedly(repo: str) -> ModelError:
    """The error for a process that ended without DownloadFinished or DownloadFailed."""
    return ModelError(f"The download of {repo} ended unexpectedly: resume it. Downloaded bytes are kept.")


def _environment(endpoint: str | None) -> dict[str, str]:
    """Environment variables of the process: plain HTTP, no telemetry, no progress bars, the hub's token."""
    ours = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    tokens = {name: os.environ[name] for name in HUB_TOKENS if name in os.environ}
    return {**ours, **tokens, **({"HF_ENDPOINT": endpoint} if endpoint else {})}


def download(hub: Hub, wanted: HubId, progress: Progress) -> Path:
    """Download a model, wait for it and return its folder or GGUF file. An exception of `progress` stops it."""
    progress(f"Asking the hub for {wanted.repo}", 0, 0)
    plan = hub.plan(wanted)
    with DownloadProcess(download_request(hub, wanted, plan)) as child:
        for message in child.messages():
            match message:
                case DownloadProgress(done, note):
                    progress(note or f"Downloading {wanted.repo}", sum(done.values()), plan.size)
                case DownloadFinished(folder):
                    return folder
                case DownloadFailed():
                    raise message.error()
    raise ended_unexpectedly(wanted.repo)
