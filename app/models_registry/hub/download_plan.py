"""What a download is going to fetch: one commit, its files, their sizes and their checksums.

The hub names two kinds of checksum. A large file has the SHA-256 of its bytes (64 digits); a small one lies in git
itself, and its checksum (40 digits) is git's: the SHA-1 of "blob <size>", a zero byte, and the bytes. Each is also
the name under which the hub's cache keeps the file.

Everything here comes from a server, so nothing is believed: a name that is no plain file name, or a checksum that
is none, never gets as far as a path.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from huggingface_hub.hf_api import ModelInfo, RepoSibling

from app.errors import ModelBroken, ModelNotFound, ModelUnsafe
from app.models_registry.files.gguf import ONE_FILE, PART, PROJECTORS, SUFFIX
from app.models_registry.files.model_files import POOLING, has_weights, needed_files, require_model
from app.models_registry.hub.hub_id import HubId

FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
DIGEST_PATTERN = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
COMMIT_PATTERN = re.compile(r"[0-9a-f]{40}")
MAX_FILES = 2_000


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository. `digest` is its checksum, and its name in the cache."""

    name: str
    size: int
    digest: str

    def __post_init__(self) -> None:
        if self.name != POOLING and not FILE_NAME.fullmatch(self.name):
            raise ValueError(f"a file must have a plain name, got {self.name!r}")
        if not isinstance(self.size, int) or self.size < 0:
            raise ValueError(f"the size of {self.name} must be 0 or more, got {self.size!r}")
        if not DIGEST_PATTERN.fullmatch(self.digest):
            raise ValueError(f"the checksum of {self.name} must be 40 or 64 digits, got {self.digest!r}")


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    """All files of a model at one commit; `revision` is the name under which that commit was asked for."""

    repo: str
    revision: str
    commit: str
    files: tuple[RemoteFile, ...]

    def __post_init__(self) -> None:
        HubId(self.repo, self.revision)
        if not COMMIT_PATTERN.fullmatch(self.commit):
            raise ValueError(f"a commit must be 40 digits, got {self.commit!r}")
        if not 0 < len(self.files) <= MAX_FILES:
            raise ValueError(f"a model must have from 1 to {MAX_FILES} files, got {len(self.files)}")

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """As it is kept on disk and handed to a child process."""
        return asdict(self)


def plan_from_json(saved: dict[str, Any]) -> DownloadPlan:
    """The plan that was kept; raises ValueError, TypeError or KeyError when it makes no sense."""
    return DownloadPlan(**{**saved, "files": tuple(RemoteFile(**file) for file in saved["files"])})


def make_plan(model: ModelInfo, wanted: HubId) -> DownloadPlan:
    """What to fetch of a model that the hub described. Raises a ModelError when its files make no model."""
    siblings = {file.rfilename: file for file in model.siblings or []}
    names = [_only(siblings, wanted)] if wanted.file else _all_needed(siblings, wanted)
    try:
        files = _files(siblings[name] for name in names)
        return DownloadPlan(wanted.repo, wanted.ref, str(model.sha), files)
    except ValueError as error:
        raise ModelUnsafe(
            f"What the hub says of {wanted.repo} cannot be trusted ({error}): choose another model."
        ) from error


def _only(names: Iterable[str], wanted: HubId) -> str:
    """The one GGUF file that is wanted. Raises a ModelError where it is not there or cannot be loaded."""
    if wanted.file not in names:
        raise ModelNotFound(f"{wanted.repo} has no file {wanted.file}: choose one from the model's page.")
    if PART.fullmatch(wanted.file):
        raise ModelBroken(f"{wanted.file} is one part of a model in several files. {ONE_FILE}")
    return wanted.file


def _all_needed(names: Iterable[str], wanted: HubId) -> list[str]:
    ggufs = gguf_names(names)
    if ggufs and not has_weights(names):
        raise ModelBroken(
            f"{wanted.repo} has only GGUF files: choose one of them, such as {wanted.repo}:{ggufs[0]}."
        )
    require_model(names, wanted.repo)
    return needed_files(names)


def gguf_names(names: Iterable[str]) -> list[str]:
    """The GGUF files that hold a whole model each: no parts, no image part."""
    return sorted(
        name
        for name in names
        if FILE_NAME.fullmatch(name)
        and name.lower().endswith(SUFFIX)
        and not PART.fullmatch(name)
        and not name.lower().startswith(PROJECTORS)
    )


def _files(siblings: Iterable[RepoSibling]) -> tuple[RemoteFile, ...]:
    # Small files first: a model that cannot be loaded shows before its weights have come.
    found = (RemoteFile(file.rfilename, _size(file), _digest(file)) for file in siblings)
    return tuple(sorted(found, key=lambda file: (file.size, file.name)))


def _size(file: RepoSibling) -> int:
    if file.size is None:
        raise ModelBroken(
            f"The hub tells no size of {file.rfilename}: try again later, or choose another model."
        )
    return file.size


def _digest(file: RepoSibling) -> str:
    return (file.lfs.sha256 if file.lfs else file.blob_id) or ""
