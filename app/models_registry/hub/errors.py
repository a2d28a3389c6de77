"""Turns the hub client's exceptions into errors whose sentences say what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import constants
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

# The client's 1.x and 2.x use different HTTP libraries. Both export the base class of the library's errors.
from huggingface_hub.errors import HTTPError as NetworkError  # type: ignore[attr-defined, unused-ignore]

from app.errors import DiskFull, ModelError, ModelGated, ModelNotFound, first_line
from app.models_registry.hub.http import FATAL_ERRORS, IncompleteTransfer, NoJson
from app.system.answer_limits import AnswerRefused
from app.system.environment import proxy_for

OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} if hasattr(errno, "EDQUOT") else {errno.ENOSPC}

WHERE = "(under Models in the app, or by `python run.py models login`)"
STATUS = {
    429: "Hugging Face limits requests (HTTP 429): try {repo} again in a few minutes.",
    416: "A file of {repo} is shorter than Hugging Face states: try again later, or choose another model.",
}
OTHER_STATUS = "Hugging Face has a problem (HTTP {code}): try {repo} again later."


@contextmanager
def as_model_errors(repo: str, revision: str, page: str = "") -> Iterator[None]:
    """Turn the hub client's exceptions about this model, and network and disk errors, into ModelErrors."""
    try:
        yield
    except (
        HfHubHTTPError,
        HFValidationError,
        NetworkError,
        IncompleteTransfer,
        AnswerRefused,
        NoJson,
        OSError,
        ValueError,
    ) as error:
        raise _as_model_error(error, repo, revision, page or f"the page of {repo} on the hub") from error


def _as_model_error(error: Exception, repo: str, revision: str, page: str) -> ModelError:
    if refusal := _refusal(error, repo, page):
        return refusal
    if missing := _missing(error, repo, revision):
        return ModelNotFound(missing)
    if isinstance(error, HfHubHTTPError):
        code = error.response.status_code
        return ModelError(STATUS.get(code, OTHER_STATUS).format(repo=repo, code=code))
    if isinstance(error, OfflineModeIsEnabled) or isinstance(error.__cause__, OfflineModeIsEnabled):
        return ModelError(
            f"{repo} is not on this machine, and HF_HUB_OFFLINE forbids downloads: unset it, or choose an "
            "installed model."
        )
    if isinstance(error, OSError) and error.errno in OUT_OF_SPACE:
        return DiskFull(
            f"The disk is full, so {repo} could not be downloaded: free some space, then try again. "
            "Downloaded bytes are kept."
        )
    if odd := _odd_answer(error, repo, page):
        return ModelError(odd)
    if isinstance(error, NetworkError | IncompleteTransfer | LocalEntryNotFoundError | ConnectionError):
        proxy, check = proxy_for(constants.ENDPOINT), "Check your connection and try again"
        if proxy:
            check = "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"
        through = f" through the proxy {proxy}" if proxy else ""
        return ModelError(f"Can't reach Hugging Face{through}. {check}, or choose an installed model.")
    return ModelError(f"{repo} could not be downloaded ({first_line(error).rstrip('.:')}): try again.")


def _odd_answer(error: Exception, repo: str, page: str) -> str:
    """Return the sentence for an error about an invalid or late answer; "" for other errors."""
    if type(error).__name__ == "TooManyRedirects":
        return f"Hugging Face redirects {repo} too many times: try again later."
    if type(error).__name__ in FATAL_ERRORS:
        return f"Hugging Face redirects {repo} to an address that is not a web address: try again later."
    if isinstance(error, AnswerRefused):
        return f"Hugging Face {error} ({repo}): try again later, or from another network."
    if isinstance(error, NoJson):
        return (
            "The answer did not come from Hugging Face, but perhaps from the login page of a network: "
            f"open {page} in a browser, then try again."
        )
    if isinstance(error, TimeoutError):
        return (
            f"Hugging Face does not answer in time ({repo}): try again later, or choose an installed model."
        )
    return ""


def _refusal(error: Exception, repo: str, page: str) -> ModelError | None:
    """Return the error for a model that this user may not read; None for other errors."""
    if isinstance(error, GatedRepoError):
        return ModelGated(
            f"{repo} is gated: accept its terms at {page}, log in with a token of the same account {WHERE}, and "
            "try again."
        )
    if not isinstance(error, HfHubHTTPError) or error.response.status_code not in (401, 403):
        return None
    if isinstance(error, RepositoryNotFoundError | DisabledRepoError):
        return None
    refused = f"Hugging Face refuses access to {repo}: ask for access at {page}, or log in with another token"
    if error.response.status_code == 401 and "authorization" in error.response.request.headers:
        refused = f"Hugging Face rejects the token that was sent for {repo}: log in with a new one"
    elif error.response.status_code == 401:
        return ModelGated(
            f"Hugging Face gives {repo} only to users with an account: log in with a token {WHERE}."
        )
    return ModelGated(f"{refused} {WHERE}. If HF_TOKEN is set, its token is sent: correct or unset it.")


def _missing(error: Exception, repo: str, revision: str) -> str:
    """Return the sentence for an error about something that does not exist; "" for other errors."""
    if isinstance(error, DisabledRepoError):
        return f"Hugging Face has disabled {repo}: choose another model."
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"There is no folder {repo} and no model {repo} on Hugging Face: check the spelling. "
            f"If the model is private, log in first {WHERE}."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"{repo} has no revision {revision!r}: choose one from the model's page, or leave it out."
    if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        return f"A file of {repo} is no longer on Hugging Face: cancel this download and start it again."
    if isinstance(error, HFValidationError):
        return f"{repo} is not a model id: enter a folder, or an id such as org/name."
    return ""
