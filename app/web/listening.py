"""Opens a listening socket at a port that is free."""

import errno
import os
import socket

from app.errors import BadOption, NoFreePort

LOOPBACK = "127.0.0.1"
PORTS_TRIED = 20
"""Maximum number of ports that are tried, including the requested port."""


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """Return a listening socket at `port`, or at the first free port after it. Port 0 means any free port.

    The socket already listens, so that no other program can take the port before the server runs. Raises
    NoFreePort, and BadOption for an address that is not this machine's."""
    last = min(port + PORTS_TRIED - 1, 65535)
    for candidate in range(port, last + 1):
        if found := _try(candidate, host):
            return found
    raise NoFreePort(
        f"No port from {port} to {last} can be used on {host}: choose another one above 1023 with --port, or close "
        "a program that uses one of them."
    )


def _try(port: int, host: str) -> socket.socket | None:
    # The protocol is named, because asyncio sets TCP_NODELAY only on sockets that name it.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # On Windows this option would let two programs share the port.
    if os.name == "posix":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise BadOption(
                f"{host} is not an address of this machine: choose {LOOPBACK}, or 0.0.0.0 for all of its addresses."
            ) from error
        return None
    return listener
