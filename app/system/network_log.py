"""A log of the hosts outside this machine that this process contacts, from the start on. It is sent nowhere.

Python calls an audit hook for every name lookup and before every connection; the hook records those that leave this
machine. It does not see sockets that libraries open in other languages, nor other processes (a download is one; it
contacts only the hub). Whoever shows the log must say so. Name resolution itself is not visible, so a connection to
an address counts for the name that its thread looked up last.
"""

import ipaddress
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

HUB_WHY = "the model hub, for a search, a model's page or a login"
CONNECTIONS = ("socket.connect", "socket.sendto", "socket.sendmsg")
LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
WATCHED = frozenset((*CONNECTIONS, *LOOKUPS))
"""All other audit events are ignored; there are thousands a second while modules are imported."""


@dataclass(frozen=True, slots=True)
class Contact:
    """A host outside this machine, how often it was contacted, and why; "" if the app knows no reason."""

    host: str
    times: int = 0
    why: str = ""


class NetworkLog:
    """The contacts so far. Safe to use from any thread, and from within any other call."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        """Expect contacts only to the hosts of `reasons` and their subdomains; its values explain why."""
        self._reasons = dict(reasons)
        self._contacts: dict[str, Contact] = {}
        self._own: frozenset[str] = frozenset()
        self._thread = threading.local()

    def watch(self) -> None:
        """Starts recording. An audit hook cannot be removed."""
        sys.addaudithook(self.audit)

    def explain(self, host: str, why: str) -> None:
        """Adds the reason why a host or its subdomains may be contacted."""
        self._reasons[host] = why

    def contacts(self) -> tuple[Contact, ...]:
        """Return all contacts so far, ordered by host."""
        return tuple(sorted(self._contacts.values(), key=lambda contact: contact.host))

    def learn_own(self, addresses: frozenset[str]) -> None:
        """Adds addresses of this machine. Connections to them are not recorded."""
        self._own |= addresses

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a contact, as Python's audit hook. It never raises, because that would abort the audited call."""
        if event not in WATCHED:
            return
        if event in LOOKUPS and arguments:
            target = arguments[0]
            name = _text(target[0] if isinstance(target, tuple) and target else target)
            self._thread.name = name
            if not self.is_here(name):
                self._record(name, 0)
        elif event in CONNECTIONS and isinstance(arguments[-1], tuple):
            address = _text(arguments[-1][0])
            if not self.is_here(address):
                name = getattr(self._thread, "name", "")
                self._record(address if self.is_here(name) else name, 1)

    def is_here(self, host: str) -> bool:
        """Return whether a name or an address belongs to this machine."""
        if host in ("", "localhost") or host in self._own:
            return True
        try:
            return ipaddress.ip_address(host.partition("%")[0]).is_loopback
        except ValueError:
            return False

    def _record(self, host: str, times: int) -> None:
        contact = self._contacts.get(host) or Contact(host, why=self._why(host))
        self._contacts[host] = replace(contact, times=contact.times + times)

    def _why(self, host: str) -> str:
        return next(
            (why for name, why in self._reasons.items() if host == name or host.endswith(f".{name}")), ""
        )


def _text(host: Any) -> str:
    """Return a host as text, or "" for anything else, such as the address of a local socket."""
    if isinstance(host, bytes):
        return host.decode(errors="replace")
    return host if isinstance(host, str) else ""
