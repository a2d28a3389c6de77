"""Logs the hosts outside this machine that this process contacts, from its start on. The log is sent nowhere.

Python calls an audit hook before every name lookup and every connection. The hook misses sockets of other processes
and of libraries in other languages, so a page that shows the log must say so. The hook does not see a lookup's
result, so a connection to an address counts for the name that its thread looked up last.
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
"""The audit events that are recorded. Imports cause thousands of other events a second."""


@dataclass(frozen=True, slots=True)
class Contact:
    """A host outside this machine, how often it was contacted, and why; `why` is "" if the reason is unknown."""

    host: str
    times: int = 0
    why: str = ""


class NetworkLog:
    """Records the contacts. It is thread-safe, and the audit hook may interrupt any method."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        """Start with no contacts. `reasons` maps a host to the reason why it or a subdomain may be contacted."""
        self._reasons = dict(reasons)
        self._contacts: dict[str, Contact] = {}
        self._addresses: set[str] = set()
        self._own: frozenset[str] = frozenset()
        self._thread = threading.local()

    def watch(self) -> None:
        """Start recording, which cannot be undone, because Python's audit hooks cannot be removed."""
        sys.addaudithook(self.audit)

    def explain(self, host: str, why: str) -> None:
        """Store the reason why a host or its subdomains may be contacted."""
        # A new mapping, because a connection of another thread may be reading the old one.
        self._reasons = {**self._reasons, host: why}

    def contacts(self) -> tuple[Contact, ...]:
        return tuple(sorted(self._contacts.values(), key=lambda contact: contact.host))

    def learn_own(self, addresses: frozenset[str]) -> None:
        """Add addresses of this machine. Connections to them are not recorded."""
        self._own |= addresses

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record an audit event if it is a contact. Raises nothing, because that would abort the audited call."""
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
                self._addresses.add(address)
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

    def is_known(self, address: str) -> bool:
        """Return whether an address belongs to this machine or to a recorded connection."""
        return self.is_here(address) or address in self._addresses

    def _record(self, host: str, times: int) -> None:
        reasons = (why for name, why in self._reasons.items() if host == name or host.endswith(f".{name}"))
        contact = self._contacts.get(host) or Contact(host, why=next(reasons, ""))
        self._contacts[host] = replace(contact, times=contact.times + times)


def _text(host: Any) -> str:
    """Return a host as a string; "" for any other value, such as the address of a local socket."""
    if isinstance(host, bytes):
        return host.decode(errors="replace")
    return host if isinstance(host, str) else ""
