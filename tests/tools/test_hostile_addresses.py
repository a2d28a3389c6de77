"""Tool servers at an address that break the rules of HTTP, or of MCP: each ends in one sentence."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest

from app.errors import ToolFailed
from app.system.child_process import message_in
from app.tools.mcp_client_main import _sentence
from app.tools.mcp_servers import ToolServers
from app.values.tools import ToolServer
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("forked_children")
Address = Callable[[str], str]
JSON, EVENTS = "application/json", "text/event-stream"
ASKED = b'data: {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}\n\n'
CHANGED = b'data: {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n\n'


class Hostile(BaseHTTPRequestHandler):
    """Does what the path says: to everything, or only to a call of its tool if the path begins with "call-".

    Below "/sessions/" it has sessions, and a stream of events that it closes at once."""

    protocol_version = "HTTP/1.1"
    requested: ClassVar[list[str]] = []
    streams: ClassVar[list[float]] = []
    known: ClassVar[dict[str, str]] = {}
    called: ClassVar[threading.Event] = threading.Event()
    session = ""

    def do_GET(self) -> None:
        if self.path == "/sessions/call-fine":
            Hostile.streams.append(time.monotonic())
            return self.answer(b"retry: 0\n\n", kind=EVENTS)
        if self.path == "/sessions/call-changes":
            return self.endless(EVENTS, CHANGED * 100)
        if self.path == "/sessions/call-asking":
            Hostile.called.clear()
            Hostile.called.wait(60)  # not while the client starts, which may then fail, too
            self.answer(ASKED, kind=EVENTS, length=10**12)
            return time.sleep(60)
        if self.path == "/sse":
            return self.answer(b"event: endpoint\ndata: /messages\n\n", kind=EVENTS)
        return self.answer(b"", 405)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Hostile.requested.append(self.path)
        if "method" not in body:  # an answer, to which it breaks the connection
            self.close_connection = True
            return
        evil, self.asked = self.path.rpartition("/")[2], body
        if self.path.startswith("/sessions/") and body["method"] == "initialize":
            self.session = f"session-{len(Hostile.requested)}"
        if evil.startswith("call-") and body["method"] != "tools/call":
            self.kind(body)
        else:
            getattr(self, evil.removeprefix("call-").replace("-", "_"))()

    def kind(self, body: dict[str, Any]) -> None:
        """Answer as a server with one tool does that knows the protocol before its newest version."""
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "evil", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "evil", "inputSchema": {"type": "object"}}]},
        }
        if "id" not in body:
            return self.answer(b"", 202)
        result = results.get(body["method"])
        unknown = {"error": {"code": -32601, "message": "not found"}}
        message = {"jsonrpc": "2.0", "id": body["id"], **({"result": result} if result else unknown)}
        return self.answer(json.dumps(message).encode(), kind=JSON)

    def answer(
        self, body: bytes, status: int = 200, kind: str = "", length: int = -1, **headers: str
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Mcp-Session-Id": self.session, **headers}.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length < 0 else length))
        self.end_headers()
        self.wfile.write(body)

    def told(self, status: int = 200, **message: Any) -> None:
        message = {"jsonrpc": "2.0", "id": self.asked["id"], **message}
        self.answer(json.dumps(message).encode(), status, JSON)

    def fine(self) -> None:
        self.told(result={"content": [{"type": "text", "text": "fine"}]})

    def changes(self) -> None:
        time.sleep(2)
        self.fine()

    def forgets(self, status: int = 404) -> None:
        """Know only the newest session, and forget the first one of each server."""
        session = self.headers["Mcp-Session-Id"]
        if Hostile.known.setdefault(self.path, session) == session:
            self.told(status, id=None, error={"code": -32000, "message": "Bad Request: No valid session ID"})
        else:
            self.fine()

    def forgets_badly(self) -> None:
        self.forgets(400)

    def forgets_always(self) -> None:
        self.answer(b"gone", 404)

    def asking(self) -> None:
        Hostile.called.set()
        self.fine()

    def bad_request(self) -> None:
        self.told(400, error={"code": -32000, "message": "the city is\nmissing"})

    def cannot_parse(self) -> None:
        self.told(error={"code": -32700, "message": "Parse error: " + "z" * 1_000_000})

    def accepted(self) -> None:
        self.answer(b"", 202)

    def wrong_id(self) -> None:
        self.told(id=999, result={"content": []})

    def many_headers(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            self.wfile.write(b"X: y\r\n" * 1000)

    def long_refusal(self, status: int = 500, kind: str = "text/html") -> None:
        self.answer(b"", status, kind, 10**12)
        while True:
            self.wfile.write(b"x" * 65536)

    def long_refusal_in_json(self) -> None:
        self.long_refusal(400, JSON)

    def long_login(self) -> None:
        self.long_refusal(401)

    def drip(self) -> None:
        self.answer(b"", kind=JSON, length=10**12)
        while True:
            self.wfile.write(b" ")
            time.sleep(0.1)

    def resumes(self) -> None:
        self.answer(b"id: 1\nretry: 0\ndata: \n\n", kind=EVENTS)

    def silent(self) -> None:
        time.sleep(60)

    def slow_head(self) -> None:
        for letter in b"HTTP/1.1 200 OK\r\nContent-Type: " + b"x" * 1000:
            self.wfile.write(bytes([letter]))
            time.sleep(0.2)

    def endless(self, kind: str = JSON, piece: bytes = b"x" * 65536) -> None:
        self.answer(b"", kind=kind, length=10**12)
        while True:
            self.wfile.write(piece)

    def endless_event(self) -> None:
        self.endless(EVENTS, b"data: " + b"x" * 65536)

    def endless_events(self) -> None:
        self.endless(EVENTS, b"data: {}\n\n" * 1000)

    def endless_comments(self) -> None:
        self.endless(EVENTS, b": still here\n\n" * 1000)

    def slow_events(self) -> None:
        self.answer(b"", kind=EVENTS, length=10**12)
        while True:
            self.wfile.write(b": still here\n\n")
            time.sleep(0.2)

    def huge(self) -> None:
        result = {"content": [{"type": "text", "text": "x" * 100_000_000}]}
        self.answer(json.dumps({"jsonrpc": "2.0", "id": 2, "result": result}).encode(), kind=JSON)

    def page(self) -> None:
        self.answer(b"<html>Welcome</html>", kind="text/html; charset=utf-8")

    def untyped(self) -> None:
        self.answer(b"{}")

    def no_json(self) -> None:
        self.answer(b"{{{", kind=JSON)

    def zipped(self) -> None:
        self.answer(b"\x1f\x8b", kind=JSON, Content_Encoding="gzip")

    def missing(self) -> None:
        self.answer(b"<html>Not here</html>", 404, "text/html")

    def sse(self) -> None:
        self.answer(b"", 405)

    def broken(self) -> None:
        self.answer(b"<html>Oh no</html>", 500, "text/html")

    def login(self) -> None:
        self.answer(b"", 401, WWW_Authenticate="Basic")

    def oauth(self) -> None:
        where = 'Bearer resource_metadata="https://example.org/.well-known/oauth-protected-resource"'
        self.answer(b"", 401, WWW_Authenticate=where)

    def forbidden(self) -> None:
        self.answer(b"", 403)

    def dies(self) -> None:
        self.answer(b'{"jsonrpc": "2.0",', kind=JSON, length=1000)
        self.close_connection = True

    def dies_in_events(self) -> None:
        self.answer(b'data: {"jsonrpc": "2.0",', kind=EVENTS, length=1000)
        self.close_connection = True

    def no_http(self) -> None:
        self.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        self.close_connection = True

    def elsewhere(self) -> None:
        port = self.headers["Host"].rpartition(":")[2]
        self.answer(b"", 307, Location=f"http://localhost:{port}/secret")

    def private(self) -> None:
        self.answer(b"", 308, Location="http://169.254.169.254/latest/meta-data")

    def loop(self) -> None:
        self.answer(b"", 307, Location="/loop")

    def secret(self) -> None:
        raise AssertionError("a redirect to another host must not be followed")

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def at() -> Iterator[Address]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    server.daemon_threads, server.block_on_close = True, False
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hangs up is no error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield lambda path: f"http://127.0.0.1:{server.server_port}/{path}"
    server.shutdown()
    server.server_close()


def failed(
    at: Address, path: str, folder: Path, starting: float = 30, answering: float = 30
) -> tuple[str, str]:
    """Start the server at this path and call its tool. Return how that failed, and the server's state."""
    address = at(path)
    servers = ToolServers(lambda: [ToolServer("evil", address=address)], folder, starting, answering)
    try:
        with pytest.raises(ToolFailed) as raised:
            servers.call(servers.tools("evil")[0], "{}", lambda: False)
        return str(raised.value), servers.status("evil").state
    finally:
        servers.close()


HTTP_BROKEN = "evil did not answer as HTTP requires ("
NO_MCP = "evil does not speak MCP at this address"
TOO_MUCH = "evil sent over 34 MB, more than any such answer needs."
BROKEN_OFF = "evil broke off its answer, or sent more than 32 MB."
UNREADABLE = "evil sent a message that cannot be read."
STARTING = {
    "endless": TOO_MUCH,
    "endless-event": BROKEN_OFF,
    "endless-events": UNREADABLE,
    "endless-comments": BROKEN_OFF,
    "huge": TOO_MUCH,
    "page": "evil answered with text/html, so it is not an MCP server.",
    "untyped": "evil answered with nothing, so it is not an MCP server.",
    "no-json": UNREADABLE,
    "zipped": "evil sent a compressed answer, which it was asked not to do.",
    "missing": f"{NO_MCP} (404). Check the address",
    "sse": f"{NO_MCP} (405). Check the address: it often ends in /mcp. Addresses of the former",
    "broken": "evil answered with an error: Server returned an error response.",
    "login": "evil asks for a login (401). If it has keys or tokens, add it as mcpServers JSON with ",
    "oauth": "evil asks for a login in the browser (OAuth), which Foresight does not offer (401). If it has",
    "forbidden": "evil asks for a login (403). If it has",
    "dies": HTTP_BROKEN,
    "dies-in-events": BROKEN_OFF,
    "no-http": HTTP_BROKEN,
    "many-headers": HTTP_BROKEN,
    "long-refusal": "evil answered with an error: Server returned an error response.",
    "long-login": "evil asks for a login (401).",
    "elsewhere": "evil answered with an error: Redirect to http://localhost:",
    "private": "evil answered with an error: Redirect to http://169.254.169.254/latest/meta-data not followed",
    "loop": "evil ",
}


@pytest.mark.parametrize(("path", "words"), STARTING.items())
def test_an_address_that_breaks_the_rules_ends_in_a_sentence(
    at: Address, tmp_path: Path, path: str, words: str
) -> None:
    told, state = failed(at, path, tmp_path)
    assert told.startswith(words) and told.endswith(".") and "\n" not in told
    assert state == "failed" and "/secret" not in Hostile.requested


SLOW = ("silent", "slow-head", "slow-events", "drip", "call-silent", "call-slow-events", "call-wrong-id")


@pytest.mark.parametrize("path", SLOW)
def test_an_address_that_does_not_answer_in_time_is_given_up(at: Address, tmp_path: Path, path: str) -> None:
    began = time.monotonic()
    told, state = failed(at, path, tmp_path, 60 if path.startswith("call-") else 2, 2)
    assert (told, state) == ("evil did not answer within 2 seconds, so it was ended.", "failed")
    assert time.monotonic() - began < 30


CALLING = {
    "call-endless": TOO_MUCH,
    "call-endless-event": BROKEN_OFF,
    "call-endless-comments": BROKEN_OFF,
    "call-huge": TOO_MUCH,
    "call-page": "evil answered with an error: Unexpected content type: text/html; charset=utf-8.",
    "call-missing": "evil answered with an error: Not Found.",
    "call-oauth": "evil asks for a login in the browser (OAuth)",
    "call-dies": HTTP_BROKEN,
    "call-many-headers": HTTP_BROKEN,
    "call-resumes": BROKEN_OFF,
    "call-accepted": "evil answered with an error: server answered a request with 202 Accepted.",
    "call-bad-request": "evil answered with an error: the city is missing.",
    "call-cannot-parse": "evil answered with an error: Parse error: zzz",
    "call-long-refusal": "evil answered with an error: Server returned an error response.",
    "call-long-refusal-in-json": "evil answered with an error: Server returned an error response.",
    "sessions/call-bad-request": "evil answered with an error: the city is missing.",
    "sessions/call-forgets-always": "evil has ended its session. Try again.",
    "call-dies-in-events": BROKEN_OFF,
    "call-private": "evil answered with an error: Redirect to http://169.254.169.254/latest/meta-data not followed",
}


@pytest.mark.parametrize(("path", "words"), CALLING.items())
def test_a_call_to_an_address_that_breaks_the_rules_ends_in_a_sentence(
    at: Address, tmp_path: Path, path: str, words: str
) -> None:
    told, _ = failed(at, path, tmp_path)
    assert told.startswith(words) and told.endswith(".") and "\n" not in told


@pytest.fixture
def servers(at: Address, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ToolServers]:
    made = ToolServers(lambda: [ToolServer("evil", address=at(f"sessions/call-{request.param}"))], tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("error", [anyio.ClosedResourceError(), anyio.BrokenResourceError()])
def test_a_connection_that_breaks_at_any_moment_is_told_in_plain_words(error: Exception) -> None:
    assert _sentence(error, {"name": "evil"}) == "evil broke off its answer, or sent more than 32 MB."


@pytest.mark.parametrize("servers", ["forgets", "forgets-badly"], indirect=True)
def test_a_call_in_a_session_that_its_server_has_forgotten_is_made_in_a_new_session(
    servers: ToolServers,
) -> None:
    (tool,) = servers.tools("evil")
    assert servers.call(tool, "{}", lambda: False) == "fine"
    assert servers.call(tool, "{}", lambda: False) == "fine"


@pytest.mark.parametrize("servers", ["fine"], indirect=True)
def test_a_stream_of_events_that_is_closed_at_once_is_opened_less_and_less_often(
    servers: ToolServers,
) -> None:
    (tool,) = servers.tools("evil")
    until(lambda: len(Hostile.streams) > 8)
    assert Hostile.streams[8] - Hostile.streams[7] > 0.5
    assert servers.call(tool, "{}", lambda: False) == "fine"


@pytest.mark.parametrize("servers", ["changes"], indirect=True)
def test_a_flood_of_announced_changes_is_no_flood_of_messages(
    servers: ToolServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = list[bytes]()
    monkeypatch.setattr(
        "app.system.child_process.message_in", lambda line: taken.append(line) or message_in(line)
    )
    (tool,) = servers.tools("evil")
    assert servers.call(tool, "{}", lambda: False) == "fine"
    assert servers.tools("evil") == (tool,) and len(taken) == 4


@pytest.mark.parametrize("servers", ["asking"], indirect=True)
def test_a_server_that_breaks_the_connection_is_started_again(servers: ToolServers) -> None:
    (tool,) = servers.tools("evil")

    def is_over() -> bool:
        with suppress(ToolFailed):
            servers.call(tool, "{}", lambda: False)
        return servers.status("evil").state == "failed"

    until(is_over)
    assert servers.tools("evil") == (tool,)
