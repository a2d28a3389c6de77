"""Forged requests never reach a route. A real server answers on a real port."""

import asyncio
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPResponse
from itertools import repeat
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.outside import Outside
from app.ui import Running, Surroundings, serve
from app.ui.guard import Guard
from tests.fake_documents import ScriptedDocuments
from tests.fake_models import ScriptedModels
from tests.fakes import ScriptedEngine
from tests.ui.conftest import open_desk

UPLOAD = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nhello\r\n--b--\r\n'
MULTIPART = {"Content-Type": "multipart/form-data; boundary=b"}
JOIN = b'{"fn_index": 0, "data": [], "session_hash": "x"}'
ROUTES = (
    ("GET", "/", b"", {}),
    ("GET", "/config", b"", {}),
    ("GET", "/gradio_api/queue/data?session_hash=x", b"", {}),
    ("POST", "/gradio_api/queue/join", JOIN, {"Content-Type": "application/json"}),
    ("POST", "/gradio_api/queue/join", JOIN, {"Content-Type": "text/plain"}),
    ("POST", "/gradio_api/upload", UPLOAD, MULTIPART),
    ("OPTIONS", "/gradio_api/upload", b"", {"Access-Control-Request-Method": "POST"}),
    ("GET", "/foresight/chats.json", b"", {}),
    ("GET", "/foresight/backup.sqlite", b"", {}),
    ("GET", "/no/such/route", b"", {}),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One page for all these tests: none of them changes it."""
    data_dir: Path = tmp_path_factory.mktemp("data")
    around = Surroundings(data_dir, data_dir / "hub", data_dir / "log", Outside({}))
    with open_desk(ScriptedEngine(), ScriptedModels(), ScriptedDocuments(), data_dir) as desk:
        page = serve(desk, around, port=0, open_browser=False)
        yield page
        page.close()


def answer(
    running: Running,
    method: str,
    path: str,
    headers: Mapping[str, str],
    *body: bytes,
) -> HTTPResponse:
    """What the server says to a request with exactly these headers, Host included."""
    connection = HTTPConnection("127.0.0.1", running.port, timeout=10)
    connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in {**headers, "Content-Length": str(sum(map(len, body)))}.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    response = connection.getresponse()
    connection.close()
    return response


@pytest.mark.parametrize(("method", "path", "body", "headers"), ROUTES)
def test_a_foreign_host_gets_400_on_every_route(
    running: Running, method: str, path: str, body: bytes, headers: dict[str, str]
) -> None:
    for host in ("evil.example", f"evil.example:{running.port}", "127.0.0.1.evil.example", "a@127.0.0.1", ""):
        forged = {**headers, "Host": host, "Origin": f"http://{host}"}
        assert answer(running, method, path, forged, body).status == 400, host


@pytest.mark.parametrize(("method", "path", "body", "headers"), ROUTES)
def test_a_foreign_origin_gets_403_on_every_route(
    running: Running, method: str, path: str, body: bytes, headers: dict[str, str]
) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{running.port}"):
        assert answer(running, method, path, {**headers, "Origin": origin}, body).status == 403, origin


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_the_browser_says_comes_from_another_site_gets_403(running: Running, site: str) -> None:
    image = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    frame = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    form = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert answer(running, "GET", "/config", image).status == 403
    assert answer(running, "GET", "/", frame).status == 403
    assert answer(running, "POST", "/gradio_api/upload", {**MULTIPART, **form}, UPLOAD).status == 403


def test_a_link_on_another_page_may_open_the_app(running: Running) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert answer(running, "GET", "/", link).status == 200
    for path in ("/config", "/foresight/chats.json", "/foresight/backup.sqlite"):
        assert answer(running, "GET", path, link).status == 403, "and nothing else"


def test_the_page_itself_and_programs_of_this_machine_pass(running: Running) -> None:
    own = {"Origin": running.url, "Sec-Fetch-Site": "same-origin"}
    assert answer(running, "GET", "/", {}).status == 200
    assert answer(running, "GET", "/", {"Host": f"localhost:{running.port}"}).status == 200
    assert answer(running, "POST", "/gradio_api/upload", {**MULTIPART, **own}, UPLOAD).status == 200


@pytest.mark.parametrize(("megabytes", "status"), [(40, 200), (301, 413)])
def test_uploads_are_taken_up_to_the_limit(running: Running, megabytes: int, status: int) -> None:
    before, after = UPLOAD.split(b"hello")
    chunks = (before, *repeat(b"x" * 2**20, megabytes), after)
    assert answer(running, "POST", "/gradio_api/upload", MULTIPART, *chunks).status == status


def test_every_answer_carries_the_security_headers(running: Running) -> None:
    for headers in ({}, {"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        got = answer(running, "GET", "/", headers).headers
        assert "default-src 'self'" in got["Content-Security-Policy"]
        assert got["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in got


def test_the_page_listens_on_loopback_only(running: Running) -> None:
    assert urlsplit(running.url).hostname == "127.0.0.1"


def test_a_forged_websocket_is_closed_before_it_opens() -> None:
    assert websocket_answers("evil.example", "http://evil.example") == ["websocket.close"]
    assert websocket_answers("127.0.0.1:7860", "http://evil.example") == ["websocket.close"]
    assert websocket_answers("127.0.0.1:7860", "http://127.0.0.1:7860") == ["websocket.accept"]


def websocket_answers(host: str, origin: str) -> list[str]:
    """The kinds of messages that a guarded websocket route answers a handshake with."""
    sent: list[str] = []

    async def send(message: Message) -> None:
        sent.append(message["type"])

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def route(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})

    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    asyncio.run(Guard(route)({"type": "websocket", "headers": headers}, receive, send))
    return sent
