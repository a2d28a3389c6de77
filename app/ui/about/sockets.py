"""This process's sockets as Linux lists them, those of libraries in other languages included.

/proc/net/tcp has a line for each socket of the machine, its addresses in hexadecimal, each four bytes in the
machine's own order: `0100007F:1EB4` is 127.0.0.1:7860 on a little-endian one.
"""

import ipaddress
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LISTENS = "0A"
TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")


@dataclass(frozen=True, slots=True)
class Socket:
    """A TCP socket: its own address and the other end's."""

    host: str
    port: int
    other: str
    is_listening: bool
    inode: str


def own_sockets() -> list[Socket] | None:
    """All TCP sockets of this process; None where the system does not tell."""
    tables = [Path(table) for table in TABLES if Path(table).exists()]
    if not tables:
        return None
    inodes = _own_inodes()
    every = (one for table in tables for one in parse_sockets(table.read_text(encoding="ascii")))
    return [one for one in every if one.inode in inodes]


def _own_inodes() -> set[str]:
    return {
        target.removeprefix("socket:[").removesuffix("]")
        for target in map(_target, Path("/proc/self/fd").iterdir())
        if target.startswith("socket:[")
    }


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed meanwhile
        return ""


def parse_sockets(table: str, order: str = sys.byteorder) -> Iterator[Socket]:
    """The sockets of /proc/net/tcp or tcp6."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9:
            host, _, port = fields[1].partition(":")
            other = fields[2].partition(":")[0]
            is_listening = fields[3] == LISTENS
            yield Socket(
                _address(host, order), int(port, 16), _address(other, order), is_listening, fields[9]
            )


def _address(digits: str, order: str) -> str:
    words = [bytes.fromhex(digits[start : start + 8]) for start in range(0, len(digits), 8)]
    packed = b"".join(word[::-1] if order == "little" else word for word in words)
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def own_name() -> str:
    """What this machine calls itself."""
    return socket.gethostname()


def own_addresses() -> set[str]:
    """This machine's addresses on its networks, as far as its own name and the routing table tell."""
    return {address for address in (*_of_own_name(), *_of_routes()) if not _is_loopback(address)}


def _of_own_name() -> Iterator[str]:
    try:
        found = socket.getaddrinfo(own_name(), None, type=socket.SOCK_STREAM)
    except OSError:
        return
    yield from (str(each[4][0]) for each in found)


def _of_routes() -> Iterator[str]:
    table = Path("/proc/self/net/fib_trie")
    if table.exists():
        yield from parse_fib_trie(table.read_text(encoding="ascii"))


def parse_fib_trie(text: str) -> Iterator[str]:
    """The machine's own IPv4 addresses: each stands a line above its `/32 host LOCAL`."""
    above = ""
    for line in text.splitlines():
        if "/32 host LOCAL" in line:
            yield above.rpartition(" ")[2]
        above = line


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
