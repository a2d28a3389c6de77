"""The TCP sockets of this process as Linux lists them, including those of libraries that are not written in Python.

/proc/net/tcp has one line per socket. Addresses are hexadecimal, four bytes at a time in the machine's byte order:
`0100007F:1EB4` is 127.0.0.1:7860 on a little-endian machine.
"""

import ipaddress
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LISTEN_STATE = "0A"
TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")


@dataclass(frozen=True, slots=True)
class Socket:
    """A TCP socket: its own address, and the address of the other end."""

    host: str
    port: int
    other: str
    is_listening: bool
    inode: str


def own_sockets() -> list[Socket] | None:
    """All TCP sockets of this process; None if the system does not list them."""
    tables = [Path(table) for table in TABLES if Path(table).exists()]
    if not tables:
        return None
    inodes = _own_inodes()
    sockets = (one for table in tables for one in parse_sockets(table.read_text(encoding="ascii")))
    return [one for one in sockets if one.inode in inodes]


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


def parse_sockets(table: str, byte_order: str = sys.byteorder) -> Iterator[Socket]:
    """The sockets in the text of /proc/net/tcp or tcp6."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9:
            host, _, port = fields[1].partition(":")
            other = _address(fields[2].partition(":")[0], byte_order)
            is_listening = fields[3] == LISTEN_STATE
            yield Socket(_address(host, byte_order), int(port, 16), other, is_listening, fields[9])


def _address(digits: str, byte_order: str) -> str:
    words = [bytes.fromhex(digits[start : start + 8]) for start in range(0, len(digits), 8)]
    packed = b"".join(word[::-1] if byte_order == "little" else word for word in words)
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
