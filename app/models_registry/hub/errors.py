"""The hub client's exceptions, put into sentences that say what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
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

from app.errors import DiskFull, ModelError, ModelGated, ModelNotFound, first_line
from app.models_registry.hub.retrying import EndedEarly

OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} if hasattr(errno, "EDQUOT") else {errno.ENOSPC}


@contextmanager
def in_words(repo: str, revision: str, page: str = "") -> Iterator[None]:
    """Turn what the hub's client raises about this model into a ModelError."""
    try:
        yield
    except (HfHubHTTPError, HFValidationError, NetworkError, EndedEarly, OSError, ValueError) as error:
        raise _in_words(error, repo, revision, page or f"the page of {repo} on the hub") from error


def _in_words(error: Exception, repo: str, revision: str, page: str) -> ModelError:
    if refusal := _refusal(error, repo, page):
        return refusal
    if missing := _missing(error, repo, revision):
        return ModelNotFound(missing)
    if isinstance(error, HfHubHTTPError):
        return ModelError(_trouble(error.response.status_code, repo))
    if isinstance(error, OfflineModeIsEnabled) or isinstance(error.__cause__, OfflineModeIsEnabled):
        return ModelError(
            f"{repo} is not on this machine and the hub is switched off (HF_HUB_OFFLINE is set): "
            "unset it, or choose a model that is here."
        )
    if isinstance(error, OSError) and error.errno in OUT_OF_SPACE:
        return DiskFull(f"The disk is full, so {repo} could not be downloaded: free some space, try again.")
    if type(error).__name__ == "TooManyRedirects":
        return ModelError(f"The hub sends {repo} round in circles (too many redirects): try again later.")
    if isinstance(error, NetworkError | EndedEarly | LocalEntryNotFoundError | ConnectionError):
        return ModelError(
            f"{repo} is not on this machine, or not all of it, and the hub cannot be reached: check the "
            "connection and try again, or choose a model that is here. What has come is kept."
        )
    return ModelError(f"{repo} could not be downloaded ({first_line(error).rstrip('.:')}): try again.")


def _refusal(error: Exception, repo: str, page: str) -> ModelError | None:
    """Why the hub does not give this model to this person; None when it is not that."""
    if isinstance(error, GatedRepoError):
        return ModelGated(
            f"{repo} is gated: accept its terms at {page}, log in with a token of that account "
            "(under Models in the app, or by `python run.py models login`), and try again."
        )
    if not isinstance(error, HfHubHTTPError) or error.response.status_code not in (401, 403):
        return None
    if isinstance(error, RepositoryNotFoundError | DisabledRepoError):
        return None
    if error.response.status_code == 401:
        return ModelGated(
            f"The hub does not know the saved token: log in with a new one to get {repo} "
            "(under Models in the app, or by `python run.py models login`)."
        )
    return ModelGated(
        f"The saved token may not read {repo}: ask for access at {page}, or log in with another token "
        "(under Models in the app, or by `python run.py models login`)."
    )


def _missing(error: Exception, repo: str, revision: str) -> str:
    """What does not exist; empty when it is not that."""
    if isinstance(error, DisabledRepoError):
        return f"The hub has closed {repo}: choose another model."
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"There is no folder {repo} here and no model {repo} on the hub: check the spelling. "
            "If the model is private, log in first (under Models in the app, or by `python run.py models login`)."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"{repo} has no revision {revision!r}: choose one from the model's page, or leave it out."
    if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        return f"A file of {repo} is no longer on the hub: cancel this download and start it again."
    if isinstance(error, HFValidationError):
        return f"{repo} is no hub id: give a folder, or an id such as org/name."
    return ""


def _trouble(code: int, repo: str) -> str:
    if code == 429:
        return f"The hub asks to slow down (answer 429), so {repo} has to wait: try again in a few minutes."
    if code == 416:
        return f"The hub has less of a file of {repo} than it says: try again later, or choose another model."
    return f"The hub has trouble (answer {code}), so {repo} could not be fetched: try again later."
