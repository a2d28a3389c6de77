"""A hub in miniature on 127.0.0.1: the few endpoints that the real client calls, with faults on demand."""

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

LOOK_UP = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/revision/(?P<revision>.+)")
RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
COMMIT = "c0ffee" * 6 + "c0de"


@dataclass
class FakeHub:
    """What the server has and how it behaves; `asked` are the requests it got.

    `breaks_off` counts how often the connection breaks half-way through what is left of a file."""

    models: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    breaks_off: Counter[str] = field(default_factory=Counter)
    asked: list[str] = field(default_factory=list)
    endpoint: str = ""


@contextmanager
def running(hub: FakeHub) -> Iterator[FakeHub]:
    """Serve the hub until the block ends."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub

    def log_message(self, *_: object) -> None:
        """Say nothing on the console."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        path = urlsplit(self.path).path
        self.hub.asked.append(f"{self.command} {path} {self.headers.get('Range', '')}".strip())
        if found := LOOK_UP.fullmatch(path):
            self._look_up(found["repo"], found["revision"])
        elif found := RESOLVE.fullmatch(path):
            self._file(found["repo"], found["file"], with_body)
        else:
            self._refuse(404, "")

    def _look_up(self, repo: str, revision: str) -> None:
        if repo not in self.hub.models:
            # The hub does not tell strangers whether a private model exists.
            return self._refuse(401, "RepoNotFound")
        if revision not in ("main", COMMIT):
            return self._refuse(404, "RevisionNotFound")
        siblings = [{"rfilename": name, "size": len(b)} for name, b in self.hub.models[repo].items()]
        body = json.dumps({"id": repo, "modelId": repo, "sha": COMMIT, "siblings": siblings}).encode()
        self._reply(200, body, {"Content-Type": "application/json"})
        return None

    def _file(self, repo: str, file: str, with_body: bool) -> None:
        if repo in self.hub.gated:
            return self._refuse(403, "GatedRepo")
        body = self.hub.models[repo][file]
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        left = body[start:]
        sent = left if with_body else b""
        if with_body and self.hub.breaks_off[file] > 0:
            self.hub.breaks_off[file] -= 1
            sent = left[: len(left) // 2]
        return self._reply(206 if start else 200, sent, headers | {"Content-Length": str(len(left))})

    def _reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()
