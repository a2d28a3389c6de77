"""Does the page's endpoint hold? Looks at the socket, and knocks as a stranger would."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPResponse

from app.ui.about.check import Check, judged
from app.ui.about.sockets import Socket
from app.ui.app_context import Endpoint

SECONDS = 5.0
KNOCKING = 0.3
STRANGER = "foresight.example"
Ask = Callable[[Endpoint, str, Mapping[str, str]], tuple[int, Mapping[str, str]]]
"""Sends a request of this method with these headers to the page; its status and headers. Raises OSError."""


def ask(endpoint: Endpoint, method: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
    """Send a request to the page's root, with the endpoint's token if it has one."""
    key = {"Authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}
    own = {"Host": f"{endpoint.host}:{endpoint.port}", "Content-Length": "0", **key}
    connection = HTTPConnection(endpoint.host, endpoint.port, timeout=SECONDS)
    try:
        connection.putrequest(method, "/", skip_host=True, skip_accept_encoding=True)
        for name, value in {**own, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        return _read(connection.getresponse())
    except HTTPException as error:
        raise OSError(f"the page gave no answer ({error})") from error
    finally:
        connection.close()


def _read(response: HTTPResponse) -> tuple[int, Mapping[str, str]]:
    return response.status, {name.lower(): value for name, value in response.getheaders()}


def check_bound(endpoint: Endpoint, listening: list[Socket] | None, addresses: set[str]) -> Check:
    """Only this machine can reach the page: what the socket is bound to, and whether other addresses answer."""
    seen = [one.host for one in listening or () if one.is_listening and one.port == endpoint.port] or [
        endpoint.host
    ]
    wide = [host for host in seen if host not in ("127.0.0.1", "::1")]
    open_at = [address for address in sorted(addresses) if answers(address, endpoint.port)]
    problem = ""
    if wide:
        problem = f"The page listens on {', '.join(wide)}: other machines can reach it."
    elif open_at:
        problem = (
            f"Port {endpoint.port} answers on {', '.join(open_at)}, too: another program may listen there."
        )
    return judged(
        "Only this machine can reach the page", problem, _praise(f"{seen[0]}:{endpoint.port}", addresses)
    )


def _praise(place: str, addresses: set[str]) -> str:
    others = ", ".join(sorted(addresses)[:3])
    more = f" and {len(addresses) - 3} more" if len(addresses) > 3 else ""
    return f"It listens on {place}; {others}{more} refused." if addresses else f"It listens on {place}."


def answers(address: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((address, port), KNOCKING).close()
    except OSError:
        return False
    return True


def check_host(endpoint: Endpoint, ask: Ask) -> Check:
    """A page of another name that leads here (DNS rebinding) is turned away."""
    name = "Foreign names are refused"
    return _expect(name, endpoint, ask, "GET", {"Host": STRANGER}, 400, f"A request to {STRANGER}")


def check_origin(endpoint: Endpoint, ask: Ask) -> Check:
    """A form or a script of another site is turned away."""
    name = "Foreign sites are refused"
    return _expect(
        name, endpoint, ask, "POST", {"Origin": f"http://{STRANGER}"}, 403, f"A request from {STRANGER}"
    )


def check_key(endpoint: Endpoint, ask: Ask) -> Check:
    """Other users and programs of this machine, which have no key, are turned away."""
    name = "Nobody gets in without the key"
    if not endpoint.token:
        words = "Every user and program of this machine may use this page: start without --no-token."
        return Check(name, "bad", words)
    stranger = replace(endpoint, token="")
    return _expect(name, stranger, ask, "GET", {}, 403, "A request without the key")


def _expect(
    name: str, endpoint: Endpoint, ask: Ask, method: str, headers: Mapping[str, str], wanted: int, what: str
) -> Check:
    try:
        status, _ = ask(endpoint, method, headers)
    except OSError as error:
        return Check(name, "unknown", f"The page could not be asked: {error}.")
    problem = f"{what} got {status}, not {wanted}: report this." if status != wanted else ""
    return judged(name, problem, f"{what} got {status}.")


def check_policy(endpoint: Endpoint, ask: Ask) -> Check:
    """The browser is told to fetch from this page alone."""
    name = "The browser may fetch from this page alone"
    try:
        _, headers = ask(endpoint, "GET", {})
    except OSError as error:
        return Check(name, "unknown", f"The page could not be asked: {error}.")
    # Its own address as that of a WebSocket is no other site.
    policy = headers.get("content-security-policy", "").replace(f"ws://{endpoint.host}:{endpoint.port}", "")
    is_strict = "default-src 'self'" in policy and "//" not in policy and "*" not in policy
    problem = (
        "" if is_strict else "The page's Content-Security-Policy is missing or names others: report this."
    )
    return judged(name, problem, "Its Content-Security-Policy names no other site.")
