"""A server on 127.0.0.1 that answers every request with given bytes, and a table of answers that nobody expects."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, repeat

Answer = Callable[[], Iterable[bytes]]
DRIP_SECONDS = 0.05
PIECE = 1 << 16
OK = "HTTP/1.1 200 OK\r\n"


@dataclass
class OddServer:
    """What it sends, the requests it got, and how many bytes of each answer clients took."""

    answer: Answer
    asked: list[bytes] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    port: int = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def serve(self, connection: socket.socket) -> None:
        place = len(self.taken)
        self.taken.append(0)
        with connection, suppress(OSError):
            connection.settimeout(20)
            self.asked.append(_request(connection))
            for piece in self.answer():
                connection.sendall(piece)
                self.taken[place] += len(piece)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)  # until the client hangs up, which it may do late


def _request(connection: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        got += connection.recv(PIECE) or b"\r\n\r\n"
    head, _, body = got.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += connection.recv(PIECE)
    return got


@contextmanager
def odd_server(answer: Answer) -> Iterator[OddServer]:
    """Serve this answer until the block ends."""
    server = OddServer(answer)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        server.port = listener.getsockname()[1]
        threading.Thread(target=_accept, args=(listener, server), daemon=True).start()
        yield server
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, server: OddServer) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=server.serve, args=(connection,), daemon=True).start()


def answer(body: bytes, kind: str = "application/json", **headers: str) -> bytes:
    """A whole answer with a body."""
    lines = {"Content-Type": kind, "Content-Length": str(len(body))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    return (OK + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n").encode() + body


def refusal(status: str, **headers: str) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode()


def dripped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A byte at a time."""
    for sign in chain.from_iterable(pieces):
        yield bytes([sign])
        time.sleep(DRIP_SECONDS)


def endless(begin: bytes, piece: bytes) -> Answer:
    return lambda: chain([begin], repeat(piece))


def once(content: bytes) -> Answer:
    return lambda: iter([content])


HEAD = (OK + "Content-Type: application/json\r\n\r\n").encode()
BOMB = gzip.compress(bytes(50_000_000))
MANY = json.dumps([{"id": f"org/m{number}"} for number in range(300_000)]).encode()
ODD: dict[str, Answer] = {
    "nothing": once(b""),
    "another protocol": once(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "a page": once(answer(b"<!doctype html><html>Log in</html>", "text/html")),
    "no body": once(answer(b"")),
    "null": once(answer(b"null")),
    "a number": once(answer(b"5")),
    "a text": once(answer(b'"x"')),
    "NaN": once(answer(b"NaN")),
    "an empty list": once(answer(b"[]")),
    "an empty object": once(answer(b"{}")),
    "a list of anything": once(answer(b'[null, 5, "x", [], {}, {"id": 5}, {"id": null}, {"id": {"a": 1}}]')),
    "an object of anything": once(
        answer(b'{"data": 5, "siblings": [5, null], "sha": 5, "id": [], "name": {}, "tags": 5, "choices": 5}')
    ),
    "nulls": once(answer(b'{"data": null, "siblings": null, "sha": null, "name": null}')),
    "a huge number": once(answer(b'{"name": ' + b"9" * 100_000 + b"}")),
    "brackets without end": once(answer(b"[" * 200_000)),
    "braces without end": once(answer(b'{"data":' * 200_000)),
    "no UTF-8": once(answer(b'{"data": "\xff\xfe\x80"}')),
    "a charset of bytes": once(answer(b'{"data"', "application/json; charset=zlib")),
    "a charset that is none": once(answer(b'{"data"', "application/json; charset=rot13")),
    "many models": once(answer(MANY)),
    "compressed": once(answer(BOMB, Content_Encoding="gzip")),
    "compressed in a way of its own": once(answer(BOMB, Content_Encoding="br, zstd")),
    "204": once(refusal("204 No Content")),
    "101": once(refusal("101 Switching Protocols", Upgrade="x", Connection="upgrade")),
    "304": once(refusal("304 Not Modified")),
    "299": once(refusal("299 Whatever", **{"Content-Length": "0"})),
    "999": once(refusal("999 What", **{"Content-Length": "0"})),
    "302 to nowhere": once(refusal("302 Found", **{"Content-Length": "0"})),
    "302 to a file": once(refusal("302 Found", Location="file:///etc/passwd", **{"Content-Length": "0"})),
    "302 to itself": once(refusal("302 Found", Location="/v1/models", **{"Content-Length": "0"})),
    "302 to no address": once(refusal("302 Found", Location="http://[::1", **{"Content-Length": "0"})),
    "401": once(refusal("401 Unauthorized", **{"Content-Length": "0"})),
    "403": once(refusal("403 Forbidden", **{"Content-Length": "0"})),
    "404": once(refusal("404 Not Found", **{"Content-Length": "0"})),
    "a longer body than there is": once(OK.encode() + b"Content-Length: 1000\r\n\r\n{}"),
    "a shorter body than there is": once(OK.encode() + b"Content-Length: 2\r\n\r\n{}{}{}"),
    "a length below 0": once(OK.encode() + b"Content-Length: -5\r\n\r\n{}"),
    "two lengths": once(OK.encode() + b"Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}"),
    "broken chunks": once(OK.encode() + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"),
    "chunks that end early": once(OK.encode() + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}"),
    "a header of a megabyte": once(OK.encode() + b"X: " + b"x" * 1_000_000 + b"\r\n\r\n{}"),
    "headers without end": endless(OK.encode(), b"X-A: " + b"x" * 1000 + b"\r\n"),
    "a body without end": endless(HEAD, b" " * PIECE),
    "a refusal without end": endless(refusal("500 Oh"), b"x" * PIECE),
    "a redirect without end": endless(refusal("302 Found", Location="/x"), b"x" * PIECE),
    "100 Continue without end": endless(b"", refusal("100 Continue") * 100),
    "headers that drip": lambda: dripped(repeat(b"X-A: x\r\n")),
    "headers that begin and drip": lambda: chain([OK.encode()], dripped(repeat(b"X-A: x\r\n"))),
    "a body that drips": lambda: chain([HEAD], dripped(repeat(b" "))),
    "a refusal that drips": lambda: chain([refusal("500 Oh")], dripped(repeat(b"x"))),
}
"""Answers to any request, by what is odd about them."""


def is_sentence(told: str) -> bool:
    """Whether a person can read it: a sentence, and no fault of the app."""
    return (
        told.endswith(".") and "bug in Foresight" not in told and "Traceback" not in told and len(told) < 600
    )
