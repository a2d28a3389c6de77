"""Sends requests to the hub with the HTTP library and the login of the hub's client. Decides what is retried.

The hub is not trusted, so all answers are limited in bytes. `read_part` and `read_json` also limit the seconds
until the last byte; a download fails after `RetryPolicy.read_timeout` seconds without progress.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from huggingface_hub import is_offline_mode
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
from huggingface_hub.errors import HTTPError as NetworkError  # type: ignore[attr-defined, unused-ignore]
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status  # type: ignore[attr-defined, unused-ignore]

from app.system.answer_limits import UNCOMPRESSED, AnswerLimit, AnswerRefused, certificates
from app.system.environment import network_settings
from app.values.dataclass_json import parse_json

RETRIED_STATUS = (408, 425, 429, 500, 502, 503, 504)
FATAL_ERRORS = ("TooManyRedirects", "UnsupportedProtocol", "InvalidURL", "LocalProtocolError")
"""Names of the HTTP library's errors that a retry would only repeat. The classes cannot be imported here, because
the client's 1.x and 2.x use different libraries."""
LIBRARY = NetworkError.__module__.partition(".")[0]
"""The HTTP library that the hub client uses: httpx, or httpx2."""
SECONDS_TO_ANSWER = 10.0
SLOWEST = 20_000
"""The slowest accepted rate in bytes per second. An answer gets one more second for each 20,000 bytes received."""
LONGEST_JSON = 5_000_000
ENOUGH = 1_000
"""Bytes of a file that count as progress."""
ROOM = 1_000_000
"""Bytes that a server may send beyond the requested end. An answer with more is refused."""


def session() -> Any:
    """Return the hub client's session. Raises NetworkSettingsUnusable."""
    with network_settings():
        return get_session()


@asynccontextmanager
async def open_stream(
    url: str, limit: AnswerLimit, start: int = 0, end: int | None = None, token: str | None = None
) -> AsyncIterator[Any]:
    """Request the bytes from `start` on (up to `end`), and yield the open answer. Raises the hub client's errors.

    The type of the answer depends on the client's version. The token is not sent to other hosts."""
    headers = build_hf_headers(token=token) | UNCOMPRESSED
    if start or end is not None:
        headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
    if is_offline_mode():
        raise OfflineModeIsEnabled
    with network_settings():
        unopened = import_module(LIBRARY).AsyncClient(
            follow_redirects=True,
            timeout=None,  # callers limit the total time, or the time without progress
            verify=certificates(LIBRARY),
            event_hooks={"request": [limit.announce], "response": [limit.begin]},
        )
    async with unopened as client, client.stream("GET", url, headers=headers) as answer:
        if (status := answer.status_code) not in (200, 206):
            # The error has only the status and the headers of the answer, so that no text of the server is shown.
            kept = [
                (name, value) for name, value in answer.headers.items() if not name.startswith("content-")
            ]
            hf_raise_for_status(type(answer)(status, headers=kept, request=answer.request))
            raise AnswerRefused(f"answered with HTTP {status}")
        yield answer


def read_part(url: str, start: int, count: int) -> bytes:
    """Return `count` bytes of a file from `start` on; fewer if the file ends earlier."""
    return asyncio.run(_read(url, start, count))


def read_json(url: str, token: str | None = None) -> Any:
    """Return the hub's answer as parsed JSON. Raises NoJson if it is not JSON."""
    answer = asyncio.run(_read(url, 0, LONGEST_JSON, is_part=False, token=token))
    try:
        return parse_json(answer)
    except ValueError as error:
        raise NoJson from error


async def _read(url: str, start: int, count: int, is_part: bool = True, token: str | None = None) -> bytes:
    found, begun = bytearray(), asyncio.get_running_loop().time()
    limit = AnswerLimit(start + count + ROOM if is_part else count)
    async with (
        asyncio.timeout(SECONDS_TO_ANSWER) as timeout,
        open_stream(url, limit, start, start + count if is_part else None, token) as answer,
    ):
        skip = start if answer.status_code == 200 else 0
        async for piece in answer.aiter_raw():
            found += piece
            timeout.reschedule(begun + SECONDS_TO_ANSWER + len(found) / SLOWEST)
            if len(found) >= skip + count and is_part:
                break
    return bytes(found[skip : skip + count])


class IncompleteTransfer(Exception):
    """The server closed the connection before the file was complete."""


class NoJson(Exception):
    """The server answered with something other than JSON, such as a web page."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Rules for failed transfers. A transfer fails if fewer than ENOUGH bytes arrive in `read_timeout` seconds.

    It is retried `first_wait` seconds after the first failure. Each further failure doubles the wait, up to
    `longest_wait`. The transfer is given up after `tries` failures without ENOUGH bytes between them."""

    read_timeout: float = 20.0
    first_wait: float = 1.0
    longest_wait: float = 60.0
    tries: int = 6

    def delay(self, failures: int, requested: float = 0.0) -> float:
        """Return the seconds to wait after `failures` in a row: at least the `requested` seconds, at most
        `longest_wait`."""
        doubled: float = self.first_wait * 2 ** (failures - 1)
        return min(max(doubled, requested), self.longest_wait)


def is_retryable(error: Exception) -> bool:
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in RETRIED_STATUS
    is_network = isinstance(error, IncompleteTransfer | NetworkError | TimeoutError)
    return is_network and type(error).__name__ not in FATAL_ERRORS


def retry_after(error: Exception) -> float:
    """Return the seconds in the server's Retry-After header; 0 if it has no seconds."""
    if not isinstance(error, HfHubHTTPError):
        return 0.0
    value = error.response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else 0.0


def reason(error: Exception) -> str:
    """Return a clause for the user that describes a retryable error."""
    if isinstance(error, HfHubHTTPError):
        code = error.response.status_code
        if code == 429:
            return "Hugging Face asks to slow down"
        return f"Hugging Face has a problem (HTTP {code})"
    if "Timeout" in type(error).__name__:
        return "Hugging Face does not answer"
    return "The connection was lost"
