"""The self-check: against the real page it is good, and each check notices what it is for."""

import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from app.errors import StoreNotUsable
from app.messages import EngineStatus
from app.outside import Outside
from app.ui import AppContext, Running, Services
from app.ui.about import door_checks, home_checks
from app.ui.about.about_html import checks_html
from app.ui.about.actions import AboutActions
from app.ui.about.check import Check
from app.ui.about.sockets import Socket, own_sockets, parse_fib_trie, parse_sockets
from app.ui.app_context import Endpoint

DOOR = Endpoint("127.0.0.1", 7860, token="secret")
TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1EB4 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0
   1: 0100007F:1EB5 0A0200C0:01BB 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0
"""
TABLE6 = """  sl  local_address                         remote_address                        st
   0: 00000000000000000000000000000000:1EB4 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 4713 1
"""
TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 192.0.2.5
        /32 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 192.0.2.255
        /32 link BROADCAST
"""


def test_the_real_page_keeps_its_promises(
    running: Running, services: Services, app_context: AppContext
) -> None:
    checks = AboutActions(services, app_context, running.endpoint).checks()
    assert {check.name: check.words for check in checks if check.verdict == "bad"} == {}
    assert [check.name for check in checks if check.verdict == "unknown"] == ["Chats are whole"]
    assert len(checks) == 9


def test_a_page_that_others_can_reach_is_noticed() -> None:
    wide = Socket("0.0.0.0", DOOR.port, "0.0.0.0", True, "1")
    assert "other machines can reach it" in door_checks.check_bound(DOOR, [wide], set()).words


def test_a_listener_at_another_address_is_found_by_knocking() -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        endpoint = Endpoint("127.0.0.1", server.getsockname()[1])
        assert door_checks.check_bound(endpoint, None, {"127.0.0.2"}).verdict == "bad"


def answering(status: int, policy: str = "") -> door_checks.Ask:
    def ask(_door: Endpoint, _method: str, _headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
        return status, {"content-security-policy": policy}

    return ask


def silent(_door: Endpoint, _method: str, _headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
    raise OSError("nobody answers")


def test_a_door_that_lets_strangers_in_is_noticed() -> None:
    for check in (door_checks.check_host, door_checks.check_origin, door_checks.check_key):
        assert check(DOOR, answering(403 if check is door_checks.check_host else 200)).verdict == "bad"
        assert check(DOOR, silent).verdict == "unknown"


def test_the_check_of_the_key_comes_without_it_and_a_page_that_has_none_is_noticed() -> None:
    came_with: list[str] = []

    def ask(endpoint: Endpoint, _method: str, _headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
        came_with.append(endpoint.token)
        return 403, {}

    assert door_checks.check_key(DOOR, ask).verdict == "good"
    assert came_with == [""]
    assert "without --no-token" in door_checks.check_key(replace(DOOR, token=""), ask).words


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [
        ("default-src 'self'; img-src 'self' data:", "good"),
        ("default-src 'self'; connect-src 'self' ws://127.0.0.1:7860", "good"),
        ("default-src 'self'; connect-src 'self' ws://127.0.0.1:9", "bad"),
        ("", "bad"),
        ("default-src 'self'; img-src https://cdn.example", "bad"),
        ("default-src *", "bad"),
    ],
)
def test_a_policy_that_names_others_is_noticed(policy: str, verdict: str) -> None:
    assert door_checks.check_policy(DOOR, answering(200, policy)).verdict == verdict


def test_contacts_are_listed_with_their_reasons_and_strangers_are_bad() -> None:
    outside = Outside({"hub.example": "the hub"})
    assert "No request left this machine" in home_checks.check_outside(outside, None).words
    outside.hear("socket.connect", (None, ("hub.example", 443)))
    known = home_checks.check_outside(outside, [])
    assert known.verdict == "good" and "hub.example (once, the hub)" in known.words
    outside.hear("socket.connect", (None, ("spy.example", 443)))
    assert "spy.example (once)" in home_checks.check_outside(outside, []).words


def test_a_connection_that_python_did_not_tell_of_is_noticed() -> None:
    silent_one = Socket("192.0.2.5", 5000, "192.0.2.9", False, "1")
    check = home_checks.check_outside(Outside({}), [silent_one])
    assert check.verdict == "bad" and "192.0.2.9" in check.words


def test_a_folder_that_cannot_be_written_is_noticed(tmp_path: Path) -> None:
    assert home_checks.check_disk(tmp_path).verdict == "good"
    assert home_checks.check_disk(tmp_path / "none").verdict == "bad"


class Chats:
    """A database that says this of itself."""

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def is_healthy(self) -> str:
        return self._problem


@pytest.mark.parametrize(("problem", "verdict"), [("", "good"), ("Page 3 is torn.", "bad")])
def test_a_database_says_itself_what_is_wrong(problem: str, verdict: str) -> None:
    check = home_checks.check_database(Chats(problem))
    assert check.verdict == verdict and (verdict == "good" or problem in check.words)


class BusyChats:
    """A database that cannot be checked now."""

    def is_healthy(self) -> str:
        raise StoreNotUsable("Another program holds the file.")


def test_a_database_that_cannot_be_checked_now_is_called_neither_whole_nor_damaged() -> None:
    check = home_checks.check_database(BusyChats())
    assert (check.verdict, check.words) == ("unknown", "Another program holds the file.")


def test_an_engine_without_a_model_is_noticed() -> None:
    assert home_checks.check_engine(EngineStatus("ready")).verdict == "good"
    assert home_checks.check_engine(EngineStatus("failed", "It broke.")).words == "It broke."


def test_the_systems_table_of_sockets_is_read() -> None:
    assert list(parse_sockets(TABLE, "little")) == [
        Socket("127.0.0.1", 7860, "0.0.0.0", True, "4711"),
        Socket("127.0.0.1", 7861, "192.0.2.10", False, "4712"),
    ]
    assert next(parse_sockets(TABLE6, "little")).host == "::"


def test_the_machines_own_addresses_are_read() -> None:
    assert list(parse_fib_trie(TRIE)) == ["192.0.2.5", "127.0.0.1"]


def test_this_process_sees_its_own_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sockets = own_sockets()
        if sockets is None:
            pytest.skip("this system does not list sockets")
        port = server.getsockname()[1]
        assert [one.host for one in sockets if one.is_listening and one.port == port] == ["127.0.0.1"]


def test_results_are_shown_with_words_and_cannot_write_html() -> None:
    html = checks_html([Check("A", "good", "fine"), Check("B", "bad", "<b>")])
    assert "1 of 2 checks are good" in html and 'aria-label="Not good"' in html and "&lt;b&gt;" in html
