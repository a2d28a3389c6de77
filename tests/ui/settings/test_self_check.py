"""The self-check: the real page passes it, and each check notices what it is for."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from app.errors import StoreNotUsable
from app.system.network_log import Contact, NetworkLog
from app.ui import AppContext, Endpoint, Running, Services
from app.ui.settings.about import checks_html, contacts, facts_html, hardware, versions
from app.ui.settings.self_check import (
    Check,
    Socket,
    check_contacts,
    check_data_folder,
    check_database,
    check_listening,
    check_requests,
    own_sockets,
    run_checks,
)
from app.values.messages import EngineStatus
from app.values.model import Memory
from tests.fakes import DEMO
from tests.support.children import run_python

WITHOUT_TORCH = (
    "import sys; from app.ui.settings.about import versions; versions(); sys.exit('torch' in sys.modules)"
)


@pytest.mark.thorough
def test_versions_are_told_without_importing_torch() -> None:
    facts = dict(versions())
    assert {"Foresight", "Python", "torch", "transformers", "gradio", "SQLite"} <= facts.keys()
    assert facts["torch"][0].isdigit()
    child = run_python(WITHOUT_TORCH)
    assert child.returncode == 0, child.stderr


def test_each_device_tells_its_memory_and_the_model_what_it_runs_on() -> None:
    memories = [Memory("cuda:0", 5_000_000_000, 8_000_000_000), Memory("cpu", 1, 2)]
    facts = dict(hardware(memories, EngineStatus("ready", model=DEMO)))
    assert facts["Memory of cuda:0"] == "5.00 GB free of 8.00 GB"
    assert "demo" in facts["Model"] and "cpu" in facts["Model"]


def test_it_is_told_what_a_layer_does_in_kernels_of_our_own_and_why_a_card_is_not_used() -> None:
    model = DEMO.with_note("fused", "Each of these runs as one kernel of our own: 5 norms.").with_note(
        "device", "It is too old."
    )
    facts = hardware([], EngineStatus("ready", model=model))
    assert ("Layers", model.note("fused")) in facts
    assert ("Device", model.note("device")) in facts
    model = DEMO.with_note("compiler", "Drafts are made in Python: install gcc.")
    assert ("C compiler", model.note("compiler")) in hardware([], EngineStatus("ready", model=model))
    model = replace(DEMO.with_note("heads", "Its own head drafts, too."), heads=True)
    assert ("Drafting heads", model.note("heads")) in hardware([], EngineStatus("ready", model=model))
    assert "Layers" not in dict(hardware([], EngineStatus("ready", model=DEMO)))


def test_contacts_are_listed_with_their_reasons() -> None:
    hosts = (Contact("hub.example", 2, "the hub"), Contact("spy.example", 0, ""))
    assert contacts(hosts) == [
        ("hub.example", "2 times, the hub"), ("spy.example", "name looked up, reason unknown"),
    ]  # fmt: skip
    assert contacts(()) == [("None", "since Foresight was started")]


def test_all_sections_are_rendered_and_escaped(services: Services, app_context: AppContext) -> None:
    html = facts_html(services, replace(app_context, note=lambda: "<img> was damaged"))
    for title in ("Versions", "Hardware", "Folders"):
        assert f"<h4>{title}</h4>" in html
    assert "&lt;img&gt; was damaged" in html and "<img" not in html


def test_results_of_the_self_check_are_named_and_escaped() -> None:
    html = checks_html([Check("A", "passed", "fine"), Check("B", "failed", "<b>")])
    assert "1 of 2 checks passed" in html and 'aria-label="Failed"' in html and "&lt;b&gt;" in html


ENDPOINT = Endpoint("127.0.0.1", 7860, key="secret")


def test_the_real_page_passes(running: Running, app_context: AppContext) -> None:
    checks = run_checks(app_context, running.endpoint)
    assert {check.name: check.details for check in checks if check.verdict == "failed"} == {}
    assert [check.name for check in checks if check.verdict == "unknown"] == ["The database is intact"]
    assert len(checks) == 7


def test_a_page_that_others_can_reach_fails() -> None:
    exposed = Socket("0.0.0.0", ENDPOINT.port, "", True)
    check = check_listening(ENDPOINT, [exposed])
    assert check.verdict == "failed" and "0.0.0.0:7860: other computers" in check.details
    assert check_listening(replace(ENDPOINT, host="0.0.0.0"), []).verdict == "failed"
    assert check_listening(ENDPOINT, []).verdict == "passed"


@contextmanager
def server_that_answers(status: int) -> Iterator[tuple[Endpoint, list[str | None]]]:
    """A server that answers every request so, and the keys that the requests had."""
    keys: list[str | None] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers["Authorization"])
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield Endpoint("127.0.0.1", server.server_port, key="secret"), keys
        server.shutdown()


def test_a_page_that_answers_foreign_requests_fails() -> None:
    with server_that_answers(200) as (endpoint, keys):
        assert [check.verdict for check in check_requests(endpoint)] == 3 * ["failed"]
        assert keys == ["Bearer secret", "Bearer secret", None]
    with server_that_answers(403) as (endpoint, _):
        assert [check.verdict for check in check_requests(endpoint)] == ["failed", "passed", "passed"]


def test_a_page_that_does_not_answer_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    checks = check_requests(Endpoint("127.0.0.1", port, key="secret"))
    assert [check.verdict for check in checks] == 3 * ["unknown"]


def test_a_page_without_a_key_fails() -> None:
    with server_that_answers(403) as (endpoint, _):
        *_, check = check_requests(replace(endpoint, key=""))
    assert check.verdict == "failed" and "without --no-key" in check.details


def test_contacts_need_a_known_reason() -> None:
    outside = NetworkLog({"hub.example": "the hub"})
    assert "has contacted no other computer" in check_contacts(outside, []).details
    outside.audit("socket.connect", (None, ("hub.example", 443)))
    known = check_contacts(outside, [])
    assert known.verdict == "passed" and "hub.example" in known.details
    outside.audit("socket.connect", (None, ("spy.example", 443)))
    unknown = check_contacts(outside, [])
    assert unknown.verdict == "failed" and "spy.example" in unknown.details


def test_a_connection_that_bypasses_the_log_of_contacts_fails() -> None:
    check = check_contacts(NetworkLog({}), [Socket("192.0.2.5", 5000, "192.0.2.9", False)])
    assert check.verdict == "failed" and "192.0.2.9" in check.details


def test_each_open_connection_must_be_in_the_log_of_contacts_whatever_else_is() -> None:
    outside = NetworkLog({"hub.example": "the hub"})
    outside.audit("socket.getaddrinfo", ("hub.example", 443))
    outside.audit("socket.connect", (None, ("192.0.2.8", 443)))
    logged, bypassing = (Socket("192.0.2.5", 5000, other, False) for other in ("192.0.2.8", "192.0.2.9"))
    assert check_contacts(outside, [logged]).verdict == "passed"
    check = check_contacts(outside, [logged, bypassing])
    assert check.verdict == "failed" and "192.0.2.9" in check.details and "192.0.2.8" not in check.details


@pytest.mark.skipif(os.name != "posix", reason="other systems have other permissions")
def test_a_data_folder_that_others_can_read_fails(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert check_data_folder(tmp_path).verdict == "passed"
    tmp_path.chmod(0o750)
    check = check_data_folder(tmp_path)
    assert check.verdict == "failed" and "chmod 700" in check.details
    assert check_data_folder(tmp_path / "none").verdict == "failed"


class ScriptedDatabase:
    """A database that reports this problem; None if it cannot be checked now."""

    def __init__(self, problem: str | None) -> None:
        self._problem = problem

    def damage(self) -> str:
        if self._problem is None:
            raise StoreNotUsable("Another program holds the file.")
        return self._problem


@pytest.mark.parametrize(
    ("problem", "verdict"), [("", "passed"), ("Page 3 is torn.", "failed"), (None, "unknown")]
)
def test_the_database_reports_its_own_problems(problem: str | None, verdict: str) -> None:
    check = check_database(ScriptedDatabase(problem))
    assert check.verdict == verdict and (problem or "") in check.details


def test_this_process_sees_its_own_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sockets = own_sockets()
        port = server.getsockname()[1]
        assert [one.host for one in sockets if one.is_listening and one.port == port] == ["127.0.0.1"]


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_an_ipv4_address_inside_an_ipv6_one_is_read_as_itself() -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), server.accept()[0]:
            sockets = [one for one in own_sockets() if one.port == port]
    assert {(one.host, one.is_listening) for one in sockets} == {("::", True), ("127.0.0.1", False)}
