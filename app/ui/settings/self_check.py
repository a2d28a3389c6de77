"""The self-check: tests what the app promises about access to the page, the network and the user's data."""

import ipaddress
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Literal

import psutil

from app.database.database import Database
from app.errors import StoreError
from app.system.network_log import NetworkLog
from app.ui.frame.services import AppContext, Endpoint

TIMEOUT_SECONDS = 5.0
FOREIGN_HOST = "foresight.example"
LOOPBACK = ("127.0.0.1", "::1")
Verdict = Literal["passed", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class Socket:
    """A TCP socket: its own address, and the address of the other end (`other`, "" if it is not connected)."""

    host: str
    port: int
    other: str
    is_listening: bool


@dataclass(frozen=True, slots=True)
class Check:
    """A promise that was checked, the verdict, and a sentence about what was found."""

    name: str
    verdict: Verdict
    details: str


def run_checks(app_context: AppContext, endpoint: Endpoint) -> list[Check]:
    """Run all checks of access, network and data; returns their results."""
    sockets, outside = own_sockets(), app_context.outside
    own = {socket.gethostname(), *(one.host for one in sockets)}
    outside.learn_own(frozenset(own))
    return [
        check_listening(endpoint, sockets),
        *check_requests(endpoint),
        check_contacts(outside, sockets),
        check_data_folder(app_context.data_dir),
        check_database(app_context.database),
    ]


def check_listening(endpoint: Endpoint, sockets: Sequence[Socket]) -> Check:
    """Check that this process listens on loopback addresses only, which no other computer can reach."""
    name = "Only this computer can reach the page"
    listening = [one for one in sockets if one.is_listening]
    exposed = sorted({f"{one.host}:{one.port}" for one in listening if one.host not in LOOPBACK})
    if exposed or endpoint.host not in LOOPBACK:
        addresses = ", ".join(exposed) or endpoint.host
        return Check(name, "failed", f"Foresight listens on {addresses}: other computers can reach it.")
    return Check(name, "passed", f"It listens on {endpoint.host}:{endpoint.port} only.")


def check_requests(endpoint: Endpoint) -> list[Check]:
    """Check that requests with foreign host names (DNS rebinding), from other sites or without key are refused."""
    origin, name = {"Origin": f"http://{FOREIGN_HOST}"}, "Requests without the key are refused"
    everybody = "All users and programs of this computer can use this page. Start without --no-key."
    return [
        _expect("Requests for other host names are refused", endpoint, {"Host": FOREIGN_HOST}, 400),
        _expect("Requests from other sites are refused", endpoint, origin, 403),
        _expect(name, replace(endpoint, key=""), {}, 403)
        if endpoint.key
        else Check(name, "failed", everybody),
    ]


def _expect(name: str, endpoint: Endpoint, headers: Mapping[str, str], status: int) -> Check:
    try:
        found = request_status(endpoint, headers)
    except OSError as error:
        return Check(name, "unknown", f"The page did not answer: {error}.")
    if found != status:
        return Check(name, "failed", f"The page answered {found}, not {status}. Please report this.")
    return Check(name, "passed", f"The page answered {found}.")


def request_status(endpoint: Endpoint, headers: Mapping[str, str]) -> int:
    """Return the status of a GET request to the page, with the key if there is one. Raises OSError."""
    authorization = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    own = {"Host": f"{endpoint.host}:{endpoint.port}", **authorization}
    connection = HTTPConnection(endpoint.host, endpoint.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.putrequest("GET", "/", skip_host=True, skip_accept_encoding=True)
        for name, value in {**own, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    except HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


def check_contacts(outside: NetworkLog, sockets: Sequence[Socket]) -> Check:
    """Check that every contact has a known reason, and that the log of contacts has every open connection."""
    name = "No unexpected network contacts"
    contacts = outside.contacts()
    unexpected = [one.host for one in contacts if not one.why]
    unlogged = sorted({one.other for one in sockets if not outside.is_known(one.other)})
    if unexpected:
        words = f"Contacted for no known reason: {', '.join(unexpected)}. Please report this."
        return Check(name, "failed", words)
    if unlogged:
        words = f"A library of this process is connected to {', '.join(unlogged)}. Please report this."
        return Check(name, "failed", words)
    hosts = ", ".join(one.host for one in contacts)
    details = (
        f"Contacted since the start: {hosts}." if hosts else "This process has contacted no other computer."
    )
    return Check(name, "passed", f"{details} Downloads run in their own processes and contact the hub only.")


def check_data_folder(folder: Path) -> Check:
    """Check that the mode of the data folder gives other users no access."""
    name = "Only you can read the data folder"
    if os.name != "posix":
        return Check(name, "unknown", f"Not checked on this system: {folder}.")
    try:
        mode = folder.stat().st_mode & 0o777
    except OSError as error:
        return Check(name, "failed", f"Can't read {folder}: {error.strerror}.")
    if mode & 0o077:
        return Check(name, "failed", f"Other users can access it (mode {mode:o}). Run: chmod 700 {folder}")
    return Check(name, "passed", f"Other users have no access to {folder} (mode {mode:o}).")


def check_database(database: Database | None) -> Check:
    """Check that the database of chats and documents is not damaged."""
    name = "The database is intact"
    if database is None:
        return Check(name, "unknown", "There is no database yet.")
    try:
        problem = database.damage()
    except StoreError as error:  # the database is busy, or the disk has no space for the check
        return Check(name, "unknown", str(error))
    return Check(name, "failed" if problem else "passed", problem or "It passed its integrity check.")


def own_sockets() -> list[Socket]:
    """Return all TCP sockets of this process, including those that native code has opened."""
    return [
        Socket(
            _address(one.laddr.ip), one.laddr.port, _address(one.raddr.ip) if one.raddr else "",
            one.status == psutil.CONN_LISTEN,
        )
        for one in psutil.Process().net_connections("tcp")
    ]  # fmt: skip


def _address(written: str) -> str:
    """Return the IPv4 address within an IPv6 address such as "::ffff:127.0.0.1"; other addresses unchanged."""
    address = ipaddress.ip_address(written)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
