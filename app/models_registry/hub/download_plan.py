"""Reads the hub's list of a repository's files, and plans which of them a download fetches.

A checksum has 64 digits (SHA-256) or, for a small file, 40 (git's SHA-1 of "blob <size>", a zero byte and the
bytes). Everything here comes from a server and is not trusted: names and checksums are checked before they become
part of a path.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.errors import ModelBroken, ModelNotFound, ModelUnsafe
from app.models_registry.files.gguf_checks import PROJECTORS
from app.models_registry.files.model_files import IN_FOLDERS, has_weights, longest, needed_files, shard_names
from app.models_registry.files.recognition import INDEX, WHOLE, refuse_files
from app.models_registry.hub.hub_id import FILE, HubId
from app.system.answer_limits import of_type
from app.values.gguf_header import parts_of
from app.values.model import gigabytes

MAX_LICENCE = 200
LARGEST = 2**50
"""The largest number of bytes, or of downloads, that is accepted from the hub."""
FILE_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,200}}|{FILE}", re.ASCII)
GGUF_FILE = re.compile(FILE, re.ASCII)
DIGEST_PATTERN = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
COMMIT_PATTERN = re.compile(r"[0-9a-f]{40}")
MAX_FILES = 2_000


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as the hub lists it. `size` is None and `digest` is "" if the hub does not list them."""

    name: str
    size: int | None
    digest: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of the hub at one commit."""

    commit: str
    files: Mapping[str, ListedFile]
    is_gated: bool = False
    licence: str = ""
    downloads: int = 0


def read_repository(answer: Any, repo: str) -> Repository:
    """Read the repository that the hub's answer describes. Raises ModelBroken if the answer is invalid."""
    try:
        listed = [_file(one) for one in of_type(answer["siblings"], list, "siblings")]
        return Repository(
            commit=of_type(answer["sha"], str, "sha"),
            files={file.name: file for file in listed},
            is_gated=bool(answer.get("gated")),
            licence=_licence(answer.get("tags")),
            downloads=count_of(answer.get("downloads")),
        )
    except (TypeError, LookupError, AttributeError) as error:
        raise ModelBroken(
            f"Hugging Face describes {repo} in an invalid way: try again later, or choose another model."
        ) from error


def count_of(value: object) -> int:
    """Return a number from the hub's answer; 0 if it is not a possible count."""
    return value if isinstance(value, int) and 0 <= value <= LARGEST else 0


def _file(answer: Any) -> ListedFile:
    size, large = answer.get("size"), answer.get("lfs")
    digest = of_type(large, dict, "lfs").get("sha256") if large else answer.get("blobId")
    return ListedFile(
        of_type(answer["rfilename"], str, "rfilename"),
        None if size is None else of_type(size, int, "size"),
        "" if digest is None else of_type(digest, str, "digest"),
    )


def _licence(tags: object) -> str:
    names = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    found = (name.removeprefix("license:") for name in names if name.startswith("license:"))
    return next(found, "")[:MAX_LICENCE]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository. `digest` is its checksum, and its name in the cache.

    Raises ValueError for a name, a size or a checksum that cannot be a file's."""

    name: str
    size: int
    digest: str

    def __post_init__(self) -> None:
        if not (FILE_NAME.fullmatch(self.name) or IN_FOLDERS.fullmatch(self.name)):
            raise ValueError(f"a file must have a plain name, and “{self.name}” is not one")
        if not isinstance(self.size, int) or not 0 <= self.size <= LARGEST:
            raise ValueError(
                f"the size of {self.name} must be from 0 to {LARGEST}; it is {str(self.size)[:40]}"
            )
        if not DIGEST_PATTERN.fullmatch(self.digest):
            raise ValueError(f"the checksum of {self.name} must be 40 or 64 digits; it is “{self.digest}”")


Read = Callable[[RemoteFile], bytes]
"""A function that returns the content of a small file of the repository."""


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    """All files of a model at one commit; `revision` is the name by which the commit was requested."""

    repo: str
    revision: str
    commit: str
    files: tuple[RemoteFile, ...]

    def __post_init__(self) -> None:
        HubId(self.repo, self.revision)
        if not COMMIT_PATTERN.fullmatch(self.commit):
            raise ValueError(f"a commit must be 40 digits; it is “{self.commit}”")
        if not 0 < len(self.files) <= MAX_FILES:
            raise ValueError(f"a model must have from 1 to {MAX_FILES} files; it has {len(self.files)}")

    @property
    def size(self) -> int:
        """Number of bytes of all files."""
        return sum(file.size for file in self.files)


def plan_from_json(saved: dict[str, Any]) -> DownloadPlan:
    """Make a plan from a saved dictionary. Raises ValueError, TypeError or KeyError if it is invalid."""
    return DownloadPlan(**{**saved, "files": tuple(RemoteFile(**file) for file in saved["files"])})


def make_plan(repository: Repository, wanted: HubId, read: Read) -> DownloadPlan:
    """Choose the files to fetch from a repository. Raises a ModelError if they are not a model that can be loaded.

    If the weights are in several files, calls `read` for their index, because only the index names the files."""
    try:
        names = part_names(wanted.file) if wanted.file else _all_needed(repository, wanted, read)
        if missing := [name for name in names if name not in repository.files]:
            raise ModelNotFound(f"{wanted.repo} has no file {missing[0]}: choose one from the model's page.")
        files = (_required(repository.files[name], wanted.repo) for name in names)
        # Small files come first, so that a refusal of the hub is seen before many bytes are fetched.
        in_order = sorted(files, key=lambda file: (file.size, file.name))
        return DownloadPlan(wanted.repo, wanted.ref, repository.commit, tuple(in_order))
    except ValueError as error:
        raise ModelUnsafe(
            f"The hub's list of the files of {wanted.repo} is invalid ({error}): choose another model."
        ) from error


def part_names(name: str) -> list[str]:
    """Return the names of all files of the GGUF model to which this file belongs."""
    return [part.as_posix() for part in parts_of(Path(name))]


def _all_needed(repository: Repository, wanted: HubId, read: Read) -> list[str]:
    names, repo = repository.files, wanted.repo
    if not has_weights(names) and (ggufs := gguf_names(names)):
        raise ModelBroken(f"{repo} has only GGUF files: choose one of them, such as {repo}:{ggufs[0]}.")
    refuse_files(names, repo)
    if WHOLE in names:
        return needed_files(names, ())
    index = read(_required(names[INDEX], repo))
    shards = shard_names(index, f"The {INDEX} of {repo}", "choose another model")
    if missing := [name for name in shards if name not in names]:
        raise ModelBroken(
            f"{repo} is not complete: its {INDEX} names {missing[0][:100]}, which is not there. "
            "Choose another model."
        )
    return needed_files(names, shards)


def _required(listed: ListedFile, repo: str) -> RemoteFile:
    """Return a needed file with its size. Raises ModelBroken if the size is unknown or too large to be loaded."""
    if listed.size is None:
        raise ModelBroken(
            f"The hub gives no size for {listed.name}: try again later, or choose another model."
        )
    file = RemoteFile(listed.name, listed.size, listed.digest)
    most = longest(file.name)
    if most and file.size > most:
        raise ModelBroken(
            f"The {file.name} of {repo} is too large ({gigabytes(file.size)}; at most {gigabytes(most)} are read): "
            "choose another model."
        )
    return file


def gguf_names(names: Collection[str]) -> list[str]:
    """Return the first file of each complete GGUF model; image parts (mmproj) are left out."""
    found = (name for name in names if GGUF_FILE.fullmatch(name))
    texts = (name for name in found if not name.rpartition("/")[2].lower().startswith(PROJECTORS))
    return sorted(
        name
        for name in texts
        if name == part_names(name)[0] and all(one in names for one in part_names(name))
    )
