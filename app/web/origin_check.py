"""Decides by the Host, Origin and Sec-Fetch headers which requests a server on this machine answers.

Any web page that the user visits could try to use a server on 127.0.0.1:

    DNS rebinding    evil.example resolves to 127.0.0.1, and the Host header names evil.example  -> 400
    forged request   Origin or Sec-Fetch-Site shows that another site or port has sent it        -> 403
"""

from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from app.errors import BadOption

OWN_NAMES = frozenset({"127.0.0.1", "::1", "localhost"})
OF_BROWSERS = frozenset({b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"})
"""Headers with which browsers describe the origin of a request."""
Origins = Callable[[], Collection[str]]
"""Returns the origins of other sites and browser extensions whose requests are accepted."""
IsOwnName = Callable[[str], bool]
"""A function that returns whether the host name of a Host header is this server's."""


def checked_origins(given: str) -> tuple[str, ...]:
    """Return the origins in a text, separated by blanks or commas. Raises BadOption for anything else."""
    origins = tuple(given.replace(",", " ").split())
    for origin in origins:
        scheme, separator, rest = origin.partition("://")
        if not (separator and scheme and rest) or set(rest) & set("/?#@*"):
            raise BadOption(
                f"{origin[:80]} is not an origin: give it as the browser sends it, such as "
                "http://localhost:3000 or app://obsidian.md."
            )
    return tuple(origin.lower() for origin in origins)


def refusal(
    method: str, path: str, headers: Headers, is_own: IsOwnName = OWN_NAMES.__contains__
) -> tuple[int, str] | None:
    """Return the status and the sentence with which a request is refused; None if it is accepted."""
    host = headers.get("host", "")
    if len(headers.getlist("host")) != 1 or not is_own(_name(host)):
        return 400, "This address is not Foresight's: open http://127.0.0.1 with its port."
    is_foreign = any(origin.lower() != f"http://{host.lower()}" for origin in headers.getlist("origin"))
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        # A link on another site that opens the page is allowed.
        fetch = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
        is_foreign |= (method, path, *fetch) != ("GET", "/", "navigate", "document")
    return (403, "Requests from other sites are refused.") if is_foreign else None


def _name(host: str) -> str:
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018  (reading it raises ValueError on a port that is not a number)
    except ValueError:
        return ""
    return (parts.hostname or "") if parts.netloc == host and "@" not in host else ""
