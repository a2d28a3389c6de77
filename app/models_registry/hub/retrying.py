"""Which failures of a transfer pass by themselves, and how long to wait for that."""

from dataclasses import dataclass

from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.errors import HTTPError as NetworkError  # type: ignore[attr-defined, unused-ignore]

PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Answers that say: not now."""
HOPELESS = ("TooManyRedirects", "UnsupportedProtocol", "InvalidURL", "LocalProtocolError")
"""Errors of the HTTP library that the next try would only repeat; its two generations share the names alone."""


class EndedEarly(Exception):
    """The server closed the connection before the file was whole."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a transfer is waited for. `silence` is the longest time without a byte, in seconds.

    After a failure it waits `first_wait` seconds, then twice as long, up to `longest_wait`; `tries` without a
    single byte between them are the end."""

    silence: float = 20.0
    first_wait: float = 1.0
    longest_wait: float = 60.0
    tries: int = 6

    def wait(self, failures: int, asked: float = 0.0) -> float:
        """Seconds before the next try, after so many failures in a row; the server may ask for more."""
        doubled: float = self.first_wait * 2 ** (failures - 1)
        return min(max(doubled, asked), self.longest_wait)


def is_passing(error: Exception) -> bool:
    """Whether the next try may go better."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in PASSING
    return isinstance(error, EndedEarly | NetworkError) and type(error).__name__ not in HOPELESS


def asked_wait(error: Exception) -> float:
    """The seconds that the server asks to be left alone."""
    if not isinstance(error, HfHubHTTPError):
        return 0.0
    asked = error.response.headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else 0.0


def reason(error: Exception) -> str:
    """What happened, for a person."""
    if isinstance(error, HfHubHTTPError):
        code = error.response.status_code
        return "The hub asks to slow down" if code == 429 else f"The hub has trouble (answer {code})"
    if "Timeout" in type(error).__name__:
        return "The hub is silent"
    return "The connection was lost"
