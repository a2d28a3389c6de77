"""The page's port: the asked one, or the next free one."""

import os
import socket

from app.errors import NoFreePort

LOOPBACK = "127.0.0.1"
TRIED = 20
"""How many ports are tried, the asked one included."""


def listen(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1, at `port` or the first free one after it. 0 takes any free port.

    The socket is handed to the server as it is, so nobody can take the port in between."""
    last = min(port + TRIED - 1, 65535)
    for candidate in range(port, last + 1):
        if found := _try(candidate):
            return found
    raise NoFreePort(
        f"No port from {port} to {last} is free on {LOOPBACK}: choose another one with --port, or close "
        "a program that uses one of them."
    )


def _try(port: int) -> socket.socket | None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Elsewhere than on POSIX this option would let two programs share the port.
    if os.name == "posix":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(128)
    except OSError:
        listener.close()
        return None
    return listener
