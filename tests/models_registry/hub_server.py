"""A hub in miniature on 127.0.0.1: the endpoints that the real client calls, with faults on demand."""

import hashlib
import json
import re
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

LOOK_UP = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)(?:/revision/(?P<revision>.+))?")
TREE = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/tree/(?P<revision>.+)")
RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
STORAGE = re.compile(r"/storage/(?P<repo>[^/]+/[^/]+)/(?P<file>.+)")
COMMIT = "c0ffee" * 6 + "c0de"
LARGE = 10_000
"""Bytes from which on a file lies in the large-file storage, as weights do."""
PIECE = 1 << 16


@dataclass(frozen=True)
class Sent:
    """Bytes that left for a client."""

    file: str
    start: int
    count: int


@dataclass
class FakeHub:
    """What the server has and how it behaves; `asked` are the requests it got, `sent` what it gave.

    By file name: `breaks_off` counts how often the connection breaks half-way through what is left, `answers` are
    the codes of the next refusals, `lies` is what is sent in place of the file, `silent` files never begin, `loops`
    are redirected to themselves. `leaked` are tokens that the storage saw. `pace` is in bytes per second, 0 for
    no limit. `connections` are those that are open now."""

    models: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)
    breaks_off: Counter[str] = field(default_factory=Counter)
    answers: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    lies: dict[str, bytes] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    loops: set[str] = field(default_factory=set)
    listing: dict[str, Any] = field(default_factory=dict)
    ignores_ranges: bool = False
    pace: float = 0.0
    asked: list[str] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    connections: set[socket.socket] = field(default_factory=set)
    endpoint: str = ""

    def gets(self, file: str) -> list[str]:
        """The requests for this file's bytes."""
        return [line for line in self.asked if line.startswith("GET") and file in line and "resolve" in line]


@contextmanager
def running(hub: FakeHub) -> Iterator[FakeHub]:
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@cache
def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@cache
def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def digest_of(content: bytes) -> str:
    """The checksum by which the hub knows a file."""
    return sha256(content) if len(content) >= LARGE else git_sha1(content)


def _sibling(name: str, content: bytes) -> dict[str, Any]:
    lfs = {"lfs": {"sha256": sha256(content), "size": len(content), "pointerSize": 135}}
    known = {"rfilename": name, "size": len(content), "blobId": git_sha1(content)}
    return known | (lfs if len(content) >= LARGE else {})


def _leaf(name: str, content: bytes) -> dict[str, Any]:
    lfs = {"lfs": {"oid": sha256(content), "size": len(content), "pointerSize": 135}}
    known = {"type": "file", "path": name, "size": len(content), "oid": git_sha1(content)}
    return known | (lfs if len(content) >= LARGE else {})


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub

    def log_message(self, *_: object) -> None:
        """Say nothing on the console."""

    def handle(self) -> None:
        self.hub.connections.add(self.connection)
        try:
            with suppress(ConnectionError, TimeoutError):  # a client that was killed
                super().handle()
        finally:
            self.hub.connections.discard(self.connection)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path} {self.headers.get('Range', '')}".strip())
        if path == "/api/models":
            self._search(parse_qs(urlsplit(self.path).query))
        elif path == "/api/whoami-v2":
            self._whoami()
        elif found := TREE.fullmatch(path):
            self._tree(found["repo"])
        elif found := LOOK_UP.fullmatch(path):
            self._look_up(found["repo"], found["revision"] or "main")
        elif found := RESOLVE.fullmatch(path):
            self._resolve(found["repo"], found["file"], with_body)
        elif found := STORAGE.fullmatch(path):
            self.hub.leaked += [self._token()] if self._token() else []
            self._file(found["repo"], found["file"], with_body)
        else:
            self._refuse(404, "")

    def _search(self, query: dict[str, list[str]]) -> None:
        words, limit = query.get("search", [""])[0], int(query.get("limit", ["100"])[0])
        found = [repo for repo in self.hub.models if words.lower() in repo.lower()]
        listed = [
            {
                "id": repo,
                "downloads": 10 * len(repo),
                "likes": 3,
                "gated": "auto" if repo in self.hub.gated else False,
            }
            for repo in sorted(found, key=len, reverse=True)
        ]
        self._json(listed[:limit])

    def _whoami(self) -> None:
        if self._token() not in self.hub.tokens:
            return self._refuse(401, "")
        return self._json(
            {
                "name": "somebody",
                "type": "user",
                "auth": {"type": "access_token", "accessToken": {"displayName": "t"}},
            }
        )

    def _token(self) -> str:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _look_up(self, repo: str, revision: str) -> None:
        if self.hub.answers["look up"]:
            return self._refuse(self.hub.answers["look up"].pop(0), "")
        if repo not in self.hub.models:
            # The hub does not tell strangers whether a private model exists.
            return self._refuse(401, "RepoNotFound")
        if revision not in ("main", COMMIT):
            return self._refuse(404, "RevisionNotFound")
        siblings = [_sibling(name, content) for name, content in self.hub.models[repo].items()]
        body = {
            "id": repo,
            "modelId": repo,
            "sha": COMMIT,
            "siblings": siblings,
            "downloads": 7,
            "gated": "manual" if repo in self.hub.gated else False,
            "cardData": {"license": "apache-2.0"},
            "tags": ["license:apache-2.0"],
        }
        return self._json(body | self.hub.listing)

    def _tree(self, repo: str) -> None:
        self._json([_leaf(name, content) for name, content in self.hub.models[repo].items()])

    def _resolve(self, repo: str, file: str, with_body: bool) -> None:
        if repo not in self.hub.models or file not in self.hub.models[repo]:
            return self._refuse(404, "EntryNotFound" if repo in self.hub.models else "RepoNotFound")
        if self._token() and self.hub.tokens and self._token() not in self.hub.tokens:
            return self._refuse(401, "")
        if repo in self.hub.gated and self._token() not in self.hub.tokens:
            return self._refuse(401 if not self._token() else 403, "GatedRepo")
        if self.hub.answers[file] and with_body:
            return self._refuse(self.hub.answers[file].pop(0), "")
        if file in self.hub.loops:
            return self._redirect(self.path, {})
        body = self.hub.models[repo][file]
        known = {"ETag": f'"{digest_of(body)}"', "X-Repo-Commit": COMMIT}
        if len(body) >= LARGE:
            linked = {"X-Linked-ETag": f'"{sha256(body)}"', "X-Linked-Size": str(len(body))}
            storage = self.hub.endpoint.replace(
                "127.0.0.1", "localhost"
            )  # another host than the hub's, as it is
            return self._redirect(f"{storage}/storage/{repo}/{file}", known | linked)
        return self._file(repo, file, with_body, known)

    def _file(self, repo: str, file: str, with_body: bool, known: dict[str, str] | None = None) -> None:
        body = self.hub.lies.get(file, self.hub.models[repo][file])
        start, end = self._range(len(body))
        if start >= len(body) > 0:
            return self._refuse(416, "")
        headers = known or {"ETag": f'"{digest_of(body)}"'}
        is_part = (start, end) != (0, len(body))
        if is_part:
            headers = headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(body)}"}
        left = memoryview(body)[start:end]
        self._head(206 if is_part else 200, {**headers, "Content-Length": str(len(left))})
        if with_body:
            self._send(file, start, left)
        return None

    def _range(self, size: int) -> tuple[int, int]:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if asked is None or self.hub.ignores_ranges:
            return 0, size
        return int(asked[1]), min(int(asked[2] or size - 1) + 1, size)

    def _send(self, file: str, start: int, left: memoryview) -> None:
        if file in self.hub.silent:
            self.connection.settimeout(30)
            self.connection.recv(1)  # until the client gives up
            return
        if self.hub.breaks_off[file] > 0:
            self.hub.breaks_off[file] -= 1
            left = left[: len(left) // 2]
            self.close_connection = True
        if self.hub.pace:  # without room to hide in, what was sent is what the client got
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE)
        # Several times a second, however slow it is.
        piece = max(1, min(PIECE, int(self.hub.pace / 8))) if self.hub.pace else max(len(left), 1)
        for begin in range(0, len(left), piece):
            part = left[begin : begin + piece]
            self.wfile.write(part)
            self.hub.sent.append(Sent(file, start + begin, len(part)))
            if self.hub.pace:
                time.sleep(len(part) / self.hub.pace)

    def _json(self, body: Any) -> None:
        text = json.dumps(body).encode()
        self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(text))})
        self.wfile.write(text)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _redirect(self, target: str, headers: dict[str, str]) -> None:
        self._head(302, {**headers, "Location": target, "Content-Length": "0"})

    def _refuse(self, status: int, code: str) -> None:
        self._head(status, {"X-Error-Code": code, "Content-Length": "0"})
