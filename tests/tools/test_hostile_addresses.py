"""Tool servers at an address that break the rules of HTTP, or of MCP: each ends in one sentence."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from app.errors import ToolFailed
from app.tools.servers import ToolServers
from app.values.tools import ToolServer

Address = Callable[[str], str]
JSON, EVENTS = "application/json", "text/event-stream"


class Hostile(BaseHTTPRequestHandler):
    """Does what the path says: to everything, or only to a call of its tool if the path begins with "call-"."""

    protocol_version = "HTTP/1.1"
    requested: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        if self.path == "/sse":
            return self.answer(b"event: endpoint\ndata: /messages\n\n", kind=EVENTS)
        return self.answer(b"", 405)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Hostile.requested.append(self.path)
        evil = self.path.strip("/")
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
        for name, value in {"Content-Type": kind, **headers}.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length < 0 else length))
        self.end_headers()
        self.wfile.write(body)

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


def failed(at: Address, path: str, folder: Path, seconds: float = 30) -> tuple[str, str]:
    """Start the server at this path and call its tool. Return how that failed, and the server's state."""
    address = at(path)
    servers = ToolServers(lambda: [ToolServer("evil", address=address)], folder, seconds, seconds)
    try:
        with pytest.raises(ToolFailed) as raised:
            servers.call(servers.tools("evil")[0], "{}", lambda: False)
        return str(raised.value), servers.status("evil").state
    finally:
        servers.close()


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
    "dies": "Can't reach evil (",
    "dies-in-events": BROKEN_OFF,
    "no-http": "Can't reach evil (",
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


@pytest.mark.parametrize("path", ["silent", "slow-head", "slow-events", "call-silent", "call-slow-events"])
def test_an_address_that_does_not_answer_in_time_is_given_up(at: Address, tmp_path: Path, path: str) -> None:
    began = time.monotonic()
    told, state = failed(at, path, tmp_path, 6)
    assert (told, state) == ("evil did not answer within 6 seconds, so it was ended.", "failed")
    assert time.monotonic() - began < 30


CALLING = {
    "call-endless": TOO_MUCH,
    "call-endless-event": BROKEN_OFF,
    "call-endless-comments": BROKEN_OFF,
    "call-huge": TOO_MUCH,
    "call-page": "evil answered with an error: Unexpected content type: text/html; charset=utf-8.",
    "call-missing": "evil answered with an error: Not Found.",
    "call-oauth": "evil asks for a login in the browser (OAuth)",
    "call-dies": "Can't reach evil (",
    "call-dies-in-events": BROKEN_OFF,
    "call-private": "evil answered with an error: Redirect to http://169.254.169.254/latest/meta-data not followed",
}


@pytest.mark.parametrize(("path", "words"), CALLING.items())
def test_a_call_to_an_address_that_breaks_the_rules_ends_in_a_sentence(
    at: Address, tmp_path: Path, path: str, words: str
) -> None:
    told, _ = failed(at, path, tmp_path)
    assert told.startswith(words) and told.endswith(".") and "\n" not in told
