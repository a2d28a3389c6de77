"""Whom this process talks to outside this machine, and why: kept from the start, shown on the page, sent nowhere.

Python tells an audit hook of every name that is looked up and of every connection before it is made; the hook keeps
those that lead off this machine. Two things it cannot see, and whoever shows the list must say so: what a library
written in another language does with sockets of its own, and what another process does (a download is one, and
talks to the hub alone). A name becomes an address where no hook looks on, so an address that a thread asks counts
as the name that this thread looked up last.
"""

import ipaddress
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

HUB_WHY = "the model hub, for a search, a model's page or a login"
CONNECTING = ("socket.connect", "socket.sendto", "socket.sendmsg")
LOOKING_UP = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
HEARD = frozenset((*CONNECTING, *LOOKING_UP))
"""Events that are looked at; there are thousands of others a second while modules are imported."""


@dataclass(frozen=True, slots=True)
class Contact:
    """A place outside, how often it was asked, and why: "" where no part of the app says that it asks it."""

    host: str
    times: int = 0
    why: str = ""


class Outside:
    """The list of contacts. Safe to use from any thread, and from inside any other call."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        """`reasons` say why a host, or any host below it, may be asked."""
        self._reasons = dict(reasons)
        self._contacts: dict[str, Contact] = {}
        self._own: frozenset[str] = frozenset()
        self._thread = threading.local()

    def watch(self) -> None:
        """Hear of everything from now on; Python has no way to stop that."""
        sys.addaudithook(self.hear)

    def explain(self, host: str, why: str) -> None:
        """Say why a host, or any host below it, may be asked from now on."""
        self._reasons[host] = why

    def contacts(self) -> tuple[Contact, ...]:
        """All contacts so far, by name."""
        return tuple(sorted(self._contacts.values(), key=lambda contact: contact.host))

    def learn_own(self, addresses: frozenset[str]) -> None:
        """These addresses are this machine's, too: asking them leaves it as little as asking 127.0.0.1."""
        self._own |= addresses

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The audit hook. It must not raise: that would end the call that it hears of."""
        if event not in HEARD:
            return
        if event in LOOKING_UP and arguments:
            asked = arguments[0]
            name = _text(asked[0] if isinstance(asked, tuple) and asked else asked)
            self._thread.name = name
            if not self.is_here(name):
                self._keep(name, 0)
        elif event in CONNECTING and isinstance(arguments[-1], tuple):
            address = _text(arguments[-1][0])
            if not self.is_here(address):
                # The name that was looked up last by this thread is whose address it is.
                name = getattr(self._thread, "name", "")
                self._keep(address if self.is_here(name) else name, 1)

    def is_here(self, host: str) -> bool:
        """Whether a name or an address is this machine's own."""
        if host in ("", "localhost") or host in self._own:
            return True
        try:
            return ipaddress.ip_address(host.partition("%")[0]).is_loopback
        except ValueError:
            return False

    def _keep(self, host: str, times: int) -> None:
        contact = self._contacts.get(host) or Contact(host, why=self._why(host))
        self._contacts[host] = replace(contact, times=contact.times + times)

    def _why(self, host: str) -> str:
        return next(
            (why for name, why in self._reasons.items() if host == name or host.endswith(f".{name}")), ""
        )


def _text(host: Any) -> str:
    """A host as text; "" for what is none, as in the addresses of sockets that lead into the system."""
    if isinstance(host, bytes):
        return host.decode(errors="replace")
    return host if isinstance(host, str) else ""
