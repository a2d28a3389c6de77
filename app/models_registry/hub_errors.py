"""The hub client's exceptions, put into sentences that say what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

# The HTTP library below the client is another one in its 2.x; both know the base of its errors by this name.
from huggingface_hub.errors import HTTPError as NetworkError  # type: ignore[attr-defined, unused-ignore]

from app.errors import ModelError, ModelNotFound


@contextmanager
def in_words(repo: str, revision: str) -> Iterator[None]:
    """Turn what the hub's client raises about this model into a ModelError."""
    try:
        yield
    except (HfHubHTTPError, HFValidationError, NetworkError, OSError) as error:
        raise _in_words(error, repo, revision) from error


def _in_words(error: Exception, repo: str, revision: str) -> ModelError:
    if refusal := _refusal(error, repo, revision):
        return ModelNotFound(refusal)
    if isinstance(error, OfflineModeIsEnabled) or isinstance(error.__cause__, OfflineModeIsEnabled):
        return ModelError(
            f"{repo} is not on this machine and the hub is switched off (HF_HUB_OFFLINE is set): "
            "unset it, or choose a model that is here."
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return ModelError(f"The disk is full, so {repo} could not be downloaded: free some space, try again.")
    if isinstance(error, NetworkError | LocalEntryNotFoundError | ConnectionError):
        return ModelError(
            f"{repo} is not on this machine, or not all of it, and the hub cannot be reached: check the "
            "connection and try again, or choose a model that is here. Files that are complete are kept."
        )
    return ModelError(f"{repo} could not be downloaded ({_first_line(error)}): try again.")


def _refusal(error: Exception, repo: str, revision: str) -> str:
    """Why the hub does not give this model out; empty when it is not the hub that refused."""
    if isinstance(error, GatedRepoError):
        return (
            f"{repo} is gated: accept its terms on the model's page on the hub, "
            "log in here with `hf auth login`, and try again."
        )
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"There is no folder {repo} here and no model {repo} on the hub: check the spelling. "
            "If the model is private, log in with `hf auth login` first."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"{repo} has no revision {revision!r}: choose one from the model's page, or leave it out."
    if isinstance(error, HFValidationError):
        return f"{repo} is no hub id: give a folder, or an id such as org/name."
    return ""


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")
