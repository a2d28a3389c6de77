"""The list of whom the app asks outside this machine: all that Python tells of, and nothing that stays here."""

import json
from typing import Any

import pytest

from app.system.network_log import Contact, NetworkLog
from tests.support.children import run_python

WHY = "the hub, when asked"
# 192.0.2.1 is an address that documentation may use and nobody has; a name below .invalid does not exist.
ASK_OUTSIDE = """
import json, socket, sys, threading
from app.system.network_log import NetworkLog
outside = NetworkLog({"hub.invalid": "the hub, when asked"})
outside.watch()
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
    socket.create_connection(("localhost", server.getsockname()[1])).close()
quiet = [contact.host for contact in outside.contacts()]
def ask(address):
    with socket.socket() as asking:
        asking.setblocking(False)
        asking.connect_ex(address)
def send(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.sendto(b"", address)
        except OSError:
            pass
try:
    socket.getaddrinfo("cdn.hub.invalid", 443)
except OSError:
    pass
ask(("192.0.2.1", 443))
def send_message(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.sendmsg([b""], [], 0, address)
        except OSError:
            pass
for do, address in ((ask, ("192.0.2.2", 80)), (send, ("192.0.2.3", 9)), (send_message, ("192.0.2.4", 9))):
    thread = threading.Thread(target=do, args=(address,))
    thread.start()
    thread.join()
try:
    socket.gethostbyaddr("named.invalid")
except OSError:
    pass
socket.getnameinfo(("192.0.2.5", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
print(json.dumps([quiet, [[one.host, one.times, one.why] for one in outside.contacts()]]))
"""


def test_real_connections_are_heard_of_before_they_are_made() -> None:
    done = run_python(ASK_OUTSIDE)
    assert (done.returncode, done.stderr) == (0, "")
    quiet, heard = json.loads(done.stdout)
    assert quiet == []
    assert [tuple(one) for one in heard] == [
        ("192.0.2.2", 1, ""),
        ("192.0.2.3", 1, ""),
        ("192.0.2.4", 1, ""),
        ("192.0.2.5", 0, ""),
        ("cdn.hub.invalid", 1, WHY),
        ("named.invalid", 0, ""),
    ]


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("socket.connect", (None, ("127.0.0.1", 80))),
        ("socket.connect", (None, ("::1", 80, 0, 0))),
        ("socket.connect", (None, ("localhost", 80))),
        ("socket.connect", (None, "/run/some.socket")),
        ("socket.connect", (None, (17, 0))),
        ("socket.getaddrinfo", (None, 80, 0, 0, 0)),
        ("socket.getaddrinfo", (b"localhost", 80, 0, 0, 0)),
        ("open", ("/etc/hosts", "r", 0)),
        ("socket.getaddrinfo", ()),
    ],
)
def test_what_stays_on_this_machine_is_not_listed(event: str, arguments: tuple[object, ...]) -> None:
    outside = NetworkLog({})
    outside.audit(event, arguments)
    assert outside.contacts() == ()


def test_a_host_is_explained_by_the_name_above_it_alone() -> None:
    outside = NetworkLog({"hub.example": WHY})
    for host in ("hub.example", "cdn.hub.example", "nothub.example"):
        outside.audit("socket.connect", (None, (host, 443)))
    assert outside.contacts() == (
        Contact("cdn.hub.example", 1, WHY),
        Contact("hub.example", 1, WHY),
        Contact("nothub.example", 1, ""),
    )


def test_a_hub_that_is_named_later_is_explained_from_then_on() -> None:
    outside = NetworkLog({})
    outside.explain("mirror.example", WHY)
    outside.audit("socket.connect", (None, ("mirror.example", 443)))
    assert outside.contacts() == (Contact("mirror.example", 1, WHY),)


class ExplainedMeanwhile(str):
    """A host name. While reasons are compared with it, another thread's call explains a host."""

    log: NetworkLog

    def endswith(self, suffix: Any, *bounds: Any) -> bool:
        self.log.explain("another.example", WHY)
        return super().endswith(suffix, *bounds)


def test_a_host_may_be_explained_while_a_connection_is_recorded() -> None:
    outside, host = NetworkLog({"hub.example": WHY}), ExplainedMeanwhile("cdn.example")
    host.log = outside
    outside.audit("socket.connect", (None, (host, 443)))
    assert outside.contacts() == (Contact("cdn.example", 1),)


def test_addresses_of_this_machine_itself_are_not_outside() -> None:
    outside = NetworkLog({})
    outside.learn_own(frozenset({"192.0.2.7"}))
    outside.audit("socket.connect", (None, ("192.0.2.7", 80)))
    assert outside.contacts() == ()


def test_an_address_is_not_given_the_name_of_this_machine() -> None:
    outside = NetworkLog({})
    outside.audit("socket.getaddrinfo", ("127.0.0.1", 80))
    outside.audit("socket.connect", (None, ("192.0.2.1", 80)))
    assert outside.contacts() == (Contact("192.0.2.1", 1),)
