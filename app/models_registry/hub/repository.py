"""What the hub says of a repository: its commit, and its files with their sizes and checksums.

Everything here comes from a server, so nothing is believed: what is of another type than it should be is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import ModelBroken
from app.system.answer_limits import of_type

MAX_LICENCE = 200
"""Characters of a licence that are kept."""
LARGEST = 2**50
"""The largest number that is believed, of bytes or of downloads."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as the hub lists it. `size` is None where the hub does not tell, `digest` "" where it has none."""

    name: str
    size: int | None
    digest: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at one commit."""

    commit: str
    files: Mapping[str, ListedFile]
    is_gated: bool = False
    licence: str = ""
    downloads: int = 0


def read_repository(told: Any, repo: str) -> Repository:
    """The repository that the hub's answer describes. Raises ModelBroken."""
    try:
        listed = [_file(one) for one in of_type(told["siblings"], list, "siblings")]
        return Repository(
            commit=of_type(told["sha"], str, "sha"),
            files={file.name: file for file in listed},
            is_gated=bool(told.get("gated")),
            licence=_licence(told.get("tags")),
            downloads=count_of(told.get("downloads")),
        )
    except (TypeError, LookupError, AttributeError) as error:
        raise ModelBroken(
            f"Hugging Face describes {repo} in an invalid way: try again later, or choose another model."
        ) from error


def count_of(value: object) -> int:
    """A number that the hub tells; 0 for one that cannot be."""
    return value if isinstance(value, int) and 0 <= value <= LARGEST else 0


def _file(told: Any) -> ListedFile:
    size, large = told.get("size"), told.get("lfs")
    digest = of_type(large, dict, "lfs").get("sha256") if large else told.get("blobId")
    return ListedFile(
        of_type(told["rfilename"], str, "rfilename"),
        None if size is None else of_type(size, int, "size"),
        "" if digest is None else of_type(digest, str, "digest"),
    )


def _licence(tags: object) -> str:
    names = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    found = (name.removeprefix("license:") for name in names if name.startswith("license:"))
    return next(found, "")[:MAX_LICENCE]
