"""Fetches one web page, as a program. It refuses private addresses, even if a name or a redirect leads to one.

An audit hook checks the address of each connection, so a name cannot resolve to another address after the check.
A proxy that the environment names may have a private address, because the proxy is the user's choice.
"""

import ipaddress
import json
import socket
import sys
from pathlib import Path
from typing import Any

import httpx2

from app import __version__
from app.errors import AppError, ToolFailed, first_line
from app.system.child_process import Say, limit_memory, serve
from app.system.environment import network_settings, proxy_for

MEMORY = 2**30
LARGEST = 5 * 2**20
"""Maximum number of bytes of a page, after it is decompressed."""
REDIRECTS = 5
CONNECT_SECONDS = 10.0
NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""The IPv6 addresses that represent IPv4 addresses in a network without IPv4."""
KNOWN_ENCODINGS = ("", "identity", "gzip", "deflate")
READABLE = ("text/", "application/xhtml+xml", "application/xml", "application/json")
HEADERS = {
    "User-Agent": f"Foresight/{__version__}",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9",
    "Accept-Encoding": "identity",
}


def fetch(line: bytes, say: Say) -> None:
    """Save the page at the requested address, or send a sentence about why it cannot be read."""
    limit_memory(MEMORY)
    address, folder = json.loads(line)
    try:
        answer = _page(address, Path(folder))
    except AppError as error:
        answer = {"problem": str(error)}
    except httpx2.TooManyRedirects:
        answer = {"problem": f"{address} redirects more than {REDIRECTS} times."}
    except Exception as error:  # a server may break HTTP, TLS and compression in many ways
        reason = first_line(error)[:300].rstrip(".")
        answer = {"problem": f"The page {address} cannot be read ({reason}). Check the address."}
    say(json.dumps(answer).encode() + b"\n")


def _page(address: str, folder: Path) -> dict[str, str]:
    proxies: set[str] = set()

    def refuse_private(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            found = arguments[1][0]
            if not is_public(found) and found not in proxies:
                raise ToolFailed(
                    f"{found} is an address of a private network, or of this machine, so it is not read."
                )

    def check(request: httpx2.Request) -> None:
        host, proxy = request.url.host, proxy_for(str(request.url))
        if proxy:
            proxies.update(_addresses(proxy.rpartition(":")[0] if ":" in proxy else proxy))
        # This lookup may find nothing if a proxy looks the name up.
        if private := [found for found in _addresses(host) if not is_public(found)]:
            raise ToolFailed(
                f"{host} is in a private network, or on this machine ({private[0]}), so it is not read."
            )

    sys.addaudithook(refuse_private)
    with network_settings():
        client = httpx2.Client(
            headers=HEADERS,
            follow_redirects=True,
            max_redirects=REDIRECTS,
            timeout=CONNECT_SECONDS,
            event_hooks={"request": [check]},
        )
    with client, client.stream("GET", address) as response:
        return _saved(response, folder)


def _saved(response: httpx2.Response, folder: Path) -> dict[str, str]:
    """Save an answer's body. Return its address and its file.

    Raises ToolFailed if the answer is an error, is not a text, is encoded in an unknown way, or is too large."""
    host, kind = response.url.host, response.headers.get("Content-Type", "text/html").lower()
    if not response.is_success:
        raise ToolFailed(
            f"{host} answered {response.status_code} {response.reason_phrase}. Check the address."
        )
    if not kind.startswith(READABLE):
        raise ToolFailed(f"{response.url} is {kind[:100]}, not a page of text, so it is not read.")
    if response.headers.get("Content-Encoding", "").strip().lower() not in KNOWN_ENCODINGS:
        raise ToolFailed(f"{host} sent the page in a compression that it was not asked for.")
    path = folder / ("page.html" if "html" in kind else "page.txt")
    with path.open("wb") as file:
        for piece in response.iter_bytes(2**16):
            if file.tell() + len(piece) > LARGEST:
                raise ToolFailed(f"{response.url} has more than {LARGEST // 2**20} MB, so it is not read.")
            file.write(piece)
    return {"address": str(response.url), "file": str(path)}


def _addresses(host: str) -> set[str]:
    """Return the addresses of a name; none if it cannot be looked up."""
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return set()


def is_public(address: str) -> bool:
    """Return whether an address is public: not private, local, multicast, reserved, tunnelled or invalid."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found.sixtofour or found.teredo:  # tunnels can reach any address
            return False
        inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in NAT64 else found
        found = found.ipv4_mapped or inner
    return found.is_global and not found.is_multicast and not found.is_reserved


if __name__ == "__main__":
    serve(fetch)
