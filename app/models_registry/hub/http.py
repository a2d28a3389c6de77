"""HTTP requests to the hub by the hub client's session (its proxies, login and redirects), and retries."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from huggingface_hub import get_session
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.errors import HTTPError as NetworkError  # type: ignore[attr-defined, unused-ignore]
from huggingface_hub.utils import (  # type: ignore[attr-defined, unused-ignore]
    build_hf_headers,
    hf_raise_for_status,
)

from app.environment import network_settings

RETRIED_STATUS = (408, 425, 429, 500, 502, 503, 504)
"""HTTP status codes that are worth a retry."""
FATAL_ERRORS = ("TooManyRedirects", "UnsupportedProtocol", "InvalidURL", "LocalProtocolError")
"""Errors of the HTTP library that a retry would repeat. Its 1.x and 2.x share only the names."""


def session() -> Any:
    """The hub client's session. Raises NetworkSettingsUnusable."""
    with network_settings():
        return get_session()


@contextmanager
def open_stream(url: str, start: int, read_timeout: float, end: int | None = None) -> Iterator[Any]:
    """The hub's answer to a request for the bytes from `start` on, still open; raises the client's errors.

    Its type is of another library in the client's 2.x than in its 1.x. Another host gets no token."""
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    if start or end is not None:
        headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
    with session().stream("GET", url, headers=headers, timeout=read_timeout) as answer:
        hf_raise_for_status(answer)
        yield answer


def read_bytes(url: str, start: int, count: int, read_timeout: float, is_part: bool = True) -> bytes:
    """At most so many bytes; never more, however much the hub sends. What is no file has no parts to ask for."""
    with open_stream(url, start, read_timeout, start + count if is_part else None) as answer:
        skip = start if answer.status_code == 200 else 0
        found = bytearray()
        for piece in answer.iter_raw():
            found += piece
            if len(found) >= skip + count:
                break
    return bytes(found[skip : skip + count])


class IncompleteTransfer(Exception):
    """The server closed the connection before the file was complete."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a transfer is waited for. `read_timeout` is the longest time without a byte, in seconds.

    After a failure it waits `first_wait` seconds, then twice as long, up to `longest_wait`; `tries` without a
    single byte between them are the end."""

    read_timeout: float = 20.0
    first_wait: float = 1.0
    longest_wait: float = 60.0
    tries: int = 6

    def delay(self, failures: int, requested: float = 0.0) -> float:
        """Seconds before the next try after so many failures in a row; the server may request more."""
        doubled: float = self.first_wait * 2 ** (failures - 1)
        return min(max(doubled, requested), self.longest_wait)


def is_retryable(error: Exception) -> bool:
    """Whether a retry may succeed."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in RETRIED_STATUS
    return isinstance(error, IncompleteTransfer | NetworkError) and type(error).__name__ not in FATAL_ERRORS


def retry_after(error: Exception) -> float:
    """The seconds of the server's Retry-After header."""
    if not isinstance(error, HfHubHTTPError):
        return 0.0
    asked = error.response.headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else 0.0


def reason(error: Exception) -> str:
    """What happened, for the user."""
    if isinstance(error, HfHubHTTPError):
        code = error.response.status_code
        return (
            "Hugging Face asks to slow down" if code == 429 else f"Hugging Face has a problem (HTTP {code})"
        )
    if "Timeout" in type(error).__name__:
        return "Hugging Face does not answer"
    return "The connection was lost"
