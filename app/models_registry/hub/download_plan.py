"""What a download is going to fetch: one commit, its files, their sizes and their checksums.

The hub names two kinds of checksum. A large file has the SHA-256 of its bytes (64 digits); a small one lies in git
itself, and its checksum (40 digits) is git's: the SHA-1 of "blob <size>", a zero byte, and the bytes. Each is also
the name under which the hub's cache keeps the file.

Everything here comes from a server, so nothing is believed: a name that is no plain file name, or a checksum that
is none, never gets as far as a path.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from app.errors import ModelBroken, ModelNotFound, ModelUnsafe
from app.models_registry.files.gguf import ONE_FILE, PART, PROJECTORS, SUFFIX
from app.models_registry.files.model_files import (
    INDEX,
    POOLING,
    WHOLE,
    has_weights,
    longest,
    needed_files,
    require_model,
    shard_names,
)
from app.models_registry.hub.hub_id import HubId
from app.models_registry.hub.repository import LARGEST, ListedFile, Repository
from app.values.model import gigabytes

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
        if not isinstance(self.size, int) or not 0 <= self.size <= LARGEST:
            raise ValueError(
                f"the size of {self.name} must be from 0 to {LARGEST}, got {str(self.size)[:40]}"
            )
        if not DIGEST_PATTERN.fullmatch(self.digest):
            raise ValueError(f"the checksum of {self.name} must be 40 or 64 digits, got {self.digest!r}")


Read = Callable[[RemoteFile], bytes]
"""The content of a small file of the repository."""


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


def make_plan(repository: Repository, wanted: HubId, read: Read) -> DownloadPlan:
    """What to fetch of a repository. Raises a ModelError when its files make no model.

    Where the weights are in several files their index is read: it alone says which."""
    try:
        names = [_only(repository.files, wanted)] if wanted.file else _all_needed(repository, wanted, read)
        files = (_required(repository.files[name], wanted.repo) for name in names)
        # Small files first: a model that cannot be loaded shows before its weights have come.
        in_order = sorted(files, key=lambda file: (file.size, file.name))
        return DownloadPlan(wanted.repo, wanted.ref, repository.commit, tuple(in_order))
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


def _all_needed(repository: Repository, wanted: HubId, read: Read) -> list[str]:
    names = repository.files
    if not has_weights(names):
        _require_no_ggufs(names, wanted.repo)
    require_model(names, wanted.repo)
    shards = () if WHOLE in names else _shards(repository, wanted.repo, read)
    return needed_files(names, shards)


def _shards(repository: Repository, repo: str, read: Read) -> list[str]:
    """The weight files that the index names, all of which are there."""
    file = _required(repository.files[INDEX], repo)
    shards = shard_names(read(file), f"The {INDEX} of {repo}", "choose another model")
    if missing := [name for name in shards if name not in repository.files]:
        raise ModelBroken(
            f"{repo} is not complete: its {INDEX} names {missing[0][:100]}, which is not there. "
            "Choose another model."
        )
    return shards


def _required(listed: ListedFile, repo: str) -> RemoteFile:
    """A file that is needed. Raises ModelBroken for one that would be refused when the model is loaded."""
    if listed.size is None:
        raise ModelBroken(
            f"The hub tells no size of {listed.name}: try again later, or choose another model."
        )
    file = RemoteFile(listed.name, listed.size, listed.digest)
    most = longest(file.name)
    if most and file.size > most:
        raise ModelBroken(
            f"The {file.name} of {repo} is far too long ({gigabytes(file.size)}; {gigabytes(most)} are the most): "
            "choose another model."
        )
    return file


def _require_no_ggufs(names: Iterable[str], repo: str) -> None:
    if ggufs := gguf_names(names):
        raise ModelBroken(f"{repo} has only GGUF files: choose one of them, such as {repo}:{ggufs[0]}.")
    if any(PART.fullmatch(name.rpartition("/")[2]) for name in names):
        raise ModelBroken(f"{repo} has only GGUF models in several files. {ONE_FILE}")


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
