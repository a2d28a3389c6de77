"""The app's side of a download in a separate process: sends a request to it and reads its messages."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
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
    """A model to fetch. If `plan` is None, the process first asks the hub for the model's files."""

    wanted: HubId
    plan: DownloadPlan | None = None
    hub: Hub = field(default_factory=Hub)


@dataclass(frozen=True, slots=True)
class DownloadPlanned:
    """The message that the files to download are known."""

    plan: DownloadPlan


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """The message of progress: downloaded bytes of each file, and a note for the user, or ""."""

    done: Mapping[str, int]
    note: str = ""

    def __post_init__(self) -> None:
        are_counts = all(isinstance(count, int) and count >= 0 for count in self.done.values())
        require(are_counts, "byte counts must be whole numbers", self.done)
        require(isinstance(self.note, str), "a note must be a text", self.note)


@dataclass(frozen=True, slots=True)
class DownloadFinished:
    """The message that all files are downloaded and checked. `folder` is the model's folder, or its GGUF file."""

    folder: Path


@dataclass(frozen=True, slots=True)
class DownloadFailed:
    """The message that the download has failed; `kind` is the name of the error's class."""

    kind: str
    sentence: str

    def __post_init__(self) -> None:
        are_texts = isinstance(self.kind, str) and isinstance(self.sentence, str)
        require(are_texts, "an error must have a kind and a sentence", (self.kind, self.sentence))

    def error(self) -> ModelError:
        """Return the error as an exception of its class; as a ModelError if that class is not a ModelError."""
        kind = getattr(errors, self.kind, ModelError)
        is_model_error = isinstance(kind, type) and issubclass(kind, ModelError)
        return kind(self.sentence) if is_model_error else ModelError(self.sentence)


DownloadMessage = DownloadPlanned | DownloadProgress | DownloadFinished | DownloadFailed


def to_line(value: DownloadRequest | DownloadMessage) -> bytes:
    """Encode a request or a message as one line of JSON."""
    return json.dumps({"is": type(value).__name__, **asdict(value)}, default=str).encode() + b"\n"


def request_from_line(line: bytes) -> DownloadRequest:
    values: dict[str, Any] = json.loads(line)
    hub, plan = values["hub"], values["plan"]
    hub["cache"] = Path(hub["cache"]) if hub["cache"] else None
    hub["retry_policy"] = RetryPolicy(**hub["retry_policy"])
    return DownloadRequest(HubId(**values["wanted"]), plan_from_json(plan) if plan else None, Hub(**hub))


def message_from_line(line: bytes) -> DownloadMessage:
    """Decode a message of `to_line`. For anything else, raises an error that `understanding` translates."""
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
    """A child process that fetches one model."""

    def __init__(self, request: DownloadRequest) -> None:
        self._repo, hub = request.wanted.repo, request.hub
        # The child downloads by plain HTTP, without Xet, telemetry and progress bars. It needs the hub's token.
        names = ("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS")
        environment = dict.fromkeys(names, "1")
        environment |= {name: os.environ[name] for name in HUB_TOKENS if name in os.environ}
        if hub.endpoint:
            environment["HF_ENDPOINT"] = hub.endpoint
        line = to_line(replace(request, hub=replace(hub, cache=hub.root)))
        super().__init__("app.models_registry.downloads.process_main", line, environment)

    def messages(self) -> Iterator[DownloadMessage]:
        """Yield the process's messages until it ends. Raises ModelError for a line that is not a message."""
        for line in self.lines():
            with understanding(ended_unexpectedly(self._repo)):
                message = message_from_line(line)
            yield message


def ended_unexpectedly(repo: str) -> ModelError:
    """Return the error for a process that ended without a final message."""
    return ModelError(f"The download of {repo} ended unexpectedly: try again. Downloaded bytes are kept.")


def download(hub: Hub, wanted: HubId, progress: Progress) -> Path:
    """Download a whole model, and return its folder or GGUF file. Raises ModelError, ProcessNotStarted.

    An exception raised by `progress` stops the download."""
    progress(f"Asking the hub for {wanted.repo}", 0, 0)
    plan = hub.plan(wanted)
    with DownloadProcess(DownloadRequest(wanted, plan, hub)) as child:
        for message in child.messages():
            match message:
                case DownloadProgress(done, note):
                    progress(note or f"Downloading {wanted.repo}", sum(done.values()), plan.size)
                case DownloadFinished(folder):
                    return folder
                case DownloadFailed():
                    raise message.error()
    raise ended_unexpectedly(wanted.repo)
