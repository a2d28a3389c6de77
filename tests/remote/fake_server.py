"""A small server with OpenAI's API that does as it is told, and misbehaves as servers do."""

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from app.remote.servers import ServerFile
from app.values.server import Server

Misbehaviour = Literal[
    "", "page", "no json", "cut off", "no end", "error in stream", "silent", "filtered", "redirect"
]
USAGE = {"prompt_tokens": 12, "completion_tokens": 7}


@dataclass
class FakeServer:
    """What it answers, and what it was asked."""

    models: tuple[str, ...] = ("org/model", "other")
    words: Sequence[str] = ("Hello ", "there", ".")
    reason: str = "stop"
    key: str = ""
    last: dict[str, Any] = field(default_factory=lambda: {"usage": USAGE})
    deltas: Sequence[dict[str, str]] = ()
    misbehaves: Misbehaviour = ""
    pauses: bool = False
    """Whether it falls silent after two pieces."""
    status: int = 0
    error: Any = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    is_left: threading.Event = field(default_factory=threading.Event)
    """Set when a client hung up on a silent server."""
    address: str = ""

    def chunks(self) -> Iterator[dict[str, Any]]:
        for delta in self.deltas or [{"content": word} for word in self.words]:
            yield {"choices": [{"index": 0, "delta": delta}]}
        reason = "content_filter" if self.misbehaves == "filtered" else self.reason
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        yield {"choices": [], **self.last}


class Handler(BaseHTTPRequestHandler):
    """Answers as the server's FakeServer says."""

    server: "Http"

    def do_GET(self) -> None:
        self._begin({})

    def do_POST(self) -> None:
        self._begin(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def log_message(self, *_: object) -> None:
        pass

    def _begin(self, asked: dict[str, Any]) -> None:
        told = self.server.told
        told.headers.append({name.lower(): value for name, value in self.headers.items()})
        told.asked.append(asked)
        if told.key and self.headers.get("Authorization") != f"Bearer {told.key}":
            self._send(401, {"error": {"message": f"Incorrect key {told.key}"}})
        elif told.status:
            self._send(told.status, told.error)
        elif told.misbehaves == "redirect":
            self.send_response(307)
            self.send_header("Location", "http://elsewhere.example/v1")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._answer(told, asked)

    def _answer(self, told: FakeServer, asked: dict[str, Any]) -> None:
        if told.misbehaves == "page":
            self._send(200, "<!doctype html><html><body>Welcome</body></html>", "text/html")
        elif not asked and told.misbehaves == "no json":
            self._send(200, "{not json", "application/json")
        elif not asked and told.misbehaves != "silent":
            self._send(200, {"object": "list", "data": [{"id": name} for name in told.models]})
        else:
            self._stream()

    def _send(self, status: int, body: Any, kind: str = "application/json") -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self) -> None:
        told = self.server.told
        if told.misbehaves == "silent":
            self._wait_for_hang_up()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if told.misbehaves == "cut off":
            self.send_header("Content-Length", "100000")
        self.end_headers()
        self._write_chunks()

    def _write_chunks(self) -> None:
        told = self.server.told
        for number, chunk in enumerate(told.chunks()):
            if number == 2 and told.misbehaves in ("cut off", "no end"):
                return
            if number == 2 and told.misbehaves == "error in stream":
                chunk = {"error": {"message": "the card fell over"}}
            text = "{not json" if number == 2 and told.misbehaves == "no json" else json.dumps(chunk)
            self.wfile.write(f"data: {text}\n\n".encode())
            self.wfile.flush()
            if number == 1 and told.pauses:
                self._wait_for_hang_up()
                return
        self.wfile.write(b"data: [DONE]\n\n")

    def _wait_for_hang_up(self) -> None:
        self.connection.settimeout(20)
        if not self.connection.recv(1):
            self.server.told.is_left.set()


class Http(ThreadingHTTPServer):
    """An HTTP server with what its handlers are told."""

    daemon_threads = True

    def __init__(self, told: FakeServer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.told = told

    def handle_error(self, *request: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that hangs up is no error
            super().handle_error(*request)


def added(folder: Path, address: str, key: str = "") -> Path:
    """The folder, in which a server has been added."""
    file = ServerFile(folder)
    file.write((*file.read(), Server(address, key)))
    return folder


@contextmanager
def running(server: FakeServer) -> Iterator[FakeServer]:
    """The server at an address of this machine."""
    http = Http(server)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    server.address = f"http://127.0.0.1:{http.server_port}/v1"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


SENTENCES: dict[Misbehaviour, str] = {
    "page": "There is no OpenAI-compatible API at {address}. Check the address: on most servers it ends with /v1.",
    "no json": "{host} sent an answer that is not valid JSON. Check the address, or update the server.",
    "cut off": "The connection to {host} broke before the reply was complete. Try again.",
    "no end": "The connection to {host} broke before the reply was complete. Try again.",
    "error in stream": "{host} ended the reply with an error: the card fell over. Try again, or look at its log.",
    "filtered": "The server's content filter ended this reply.",
    "redirect": "{host} redirects to another address (307). Enter that address under Models → Installed.",
    "silent": "{host} did not answer in time. Check that it is running and not overloaded, then try again.",
}
"""What a person is told of each."""


def host(server: FakeServer) -> str:
    """As sentences name it."""
    return server.address.split("/")[2]


def told_of(misbehaviour: Misbehaviour, server: FakeServer) -> str:
    """The whole sentence."""
    return SENTENCES[misbehaviour].format(host=host(server), address=server.address)
