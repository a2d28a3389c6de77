"""Forged requests never reach a route. A real server answers on a real port."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPResponse
from itertools import repeat
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.ui import Running, serve
from app.ui.frame.page_access import Guard, Key
from tests.fake_documents import ScriptedDocuments
from tests.fake_models import ScriptedModels
from tests.fakes import ScriptedEngine
from tests.ui.conftest import context_of, key_of, open_services

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
    ("POST", "/foresight/raise", b"", {}),
    ("GET", "/theme.css", b"", {}),
    ("GET", "/favicon.ico", b"", {}),
    ("HEAD", "/", b"", {}),
    ("POST", "/?token=x", b"", {}),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One page for all these tests: none of them changes it."""
    data_dir: Path = tmp_path_factory.mktemp("data")
    app_context = context_of(data_dir)
    with open_services(ScriptedEngine(), ScriptedModels(), ScriptedDocuments(), data_dir) as services:
        page = serve(services, app_context, port=0, open_browser=False)
        yield page
        page.close()


LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
"""What a browser says of a click on another site's link."""


def answer(
    running: Running, method: str, path: str, headers: Mapping[str, str], *body: bytes
) -> HTTPResponse:
    """What the server says to a request with exactly these headers, Host included."""
    connection = HTTPConnection("127.0.0.1", running.port, timeout=300)
    connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in {**headers, "Content-Length": str(sum(map(len, body)))}.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    response = connection.getresponse()
    connection.close()
    return response


def cookie_of(running: Running) -> str:
    """The cookie that a browser gets for the token."""
    got = answer(running, "GET", f"/?token={running.endpoint.token}", {}).headers["Set-Cookie"]
    return str(got).partition(";")[0]


@pytest.mark.parametrize(("method", "path", "body", "headers"), ROUTES)
def test_a_foreign_host_gets_400_on_every_route(
    running: Running, method: str, path: str, body: bytes, headers: dict[str, str]
) -> None:
    for host in ("evil.example", f"evil.example:{running.port}", "127.0.0.1.evil.example", "a@127.0.0.1", ""):
        forged = {**headers, **key_of(running), "Host": host, "Origin": f"http://{host}"}
        assert answer(running, method, path, forged, body).status == 400, host


@pytest.mark.parametrize(("method", "path", "body", "headers"), ROUTES)
def test_a_foreign_origin_gets_403_on_every_route(
    running: Running, method: str, path: str, body: bytes, headers: dict[str, str]
) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{running.port}"):
        forged = {**headers, **key_of(running), "Origin": origin}
        assert answer(running, method, path, forged, body).status == 403, origin


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_the_browser_says_comes_from_another_site_gets_403(running: Running, site: str) -> None:
    key = key_of(running)
    image = {**key, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    frame = {**key, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    form = {**key, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert answer(running, "GET", "/config", image).status == 403
    assert answer(running, "GET", "/", frame).status == 403
    assert answer(running, "POST", "/gradio_api/upload", {**MULTIPART, **form}, UPLOAD).status == 403


def test_a_link_on_another_page_may_open_the_app(running: Running) -> None:
    link = {**LINK, **key_of(running)}
    assert answer(running, "GET", "/", link).status == 200
    for path in ("/config", "/foresight/chats.json", "/foresight/backup.sqlite"):
        assert answer(running, "GET", path, link).status == 403, "and nothing else"


def test_the_page_itself_and_programs_of_this_machine_pass(running: Running) -> None:
    own = {**key_of(running), "Origin": running.endpoint.origin, "Sec-Fetch-Site": "same-origin"}
    assert answer(running, "GET", "/", key_of(running)).status == 200
    local = {**key_of(running), "Host": f"localhost:{running.port}"}
    assert answer(running, "GET", "/", local).status == 200
    assert answer(running, "POST", "/gradio_api/upload", {**MULTIPART, **own}, UPLOAD).status == 200


@pytest.mark.parametrize(("megabytes", "status"), [(40, 200), (301, 413)])
def test_uploads_are_taken_up_to_the_limit(running: Running, megabytes: int, status: int) -> None:
    before, after = UPLOAD.split(b"hello")
    chunks = (before, *repeat(b"x" * 2**20, megabytes), after)
    headers = {**MULTIPART, **key_of(running)}
    assert answer(running, "POST", "/gradio_api/upload", headers, *chunks).status == status


def test_what_passes_is_logged_without_its_query(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "app.ui.frame.page_access")
    answer(running, "GET", f"/?token={running.endpoint.token}", {})
    answer(running, "GET", "/?secret=1", {})
    answer(running, "GET", "/?secret=1", key_of(running))
    assert caplog.messages == ["GET '/'"], "the first is led on, the second refused"


def test_every_answer_carries_the_security_headers(running: Running) -> None:
    for headers in ({}, key_of(running), {"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        got = answer(running, "GET", "/", headers).headers
        assert "default-src 'self'" in got["Content-Security-Policy"]
        assert got["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in got


def test_the_page_may_open_websockets_at_its_own_address_and_no_other(running: Running) -> None:
    for host in (f"127.0.0.1:{running.port}", f"localhost:{running.port}"):
        policy = answer(running, "GET", "/", {"Host": host}).headers["Content-Security-Policy"]
        assert f"connect-src 'self' ws://{host};" in policy
    assert (
        "ws://"
        not in answer(running, "GET", "/", {"Host": "evil.example"}).headers["Content-Security-Policy"]
    )


@pytest.mark.parametrize(("method", "path", "body", "headers"), ROUTES)
def test_without_the_key_every_route_answers_403(
    running: Running, method: str, path: str, body: bytes, headers: dict[str, str]
) -> None:
    cookie = cookie_of(running).partition("=")[0]
    for key in (
        {},
        LINK,
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {running.endpoint.token}x"},
        {"Authorization": f"Basic {running.endpoint.token}"},
        {"Authorization": "Bearer ü"},
        {"Cookie": f"{cookie}="},
        {"Cookie": f"{cookie}={running.endpoint.token}"},
    ):
        assert answer(running, method, path, {**headers, **key}, body).status == 403, key


def test_the_token_becomes_a_cookie_that_opens_every_route(running: Running) -> None:
    cookie = {"Cookie": f"other=1; {cookie_of(running)}"}
    assert running.endpoint.token not in cookie["Cookie"]
    for path in ("/", "/config", "/foresight/chats.json"):
        assert answer(running, "GET", path, cookie).status == 200, path


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(running: Running) -> None:
    response = answer(running, "GET", f"/?token={running.endpoint.token}", LINK)
    assert (response.status, response.headers["Cache-Control"]) == (200, "no-store")
    name, *attributes = response.headers["Set-Cookie"].split("; ")
    assert name.startswith(f"foresight-{running.port}=")
    assert {attribute.lower() for attribute in attributes} == {"httponly", "path=/", "samesite=strict"}


def test_a_token_of_another_start_is_told_and_gets_no_cookie(running: Running) -> None:
    response = answer(running, "GET", "/?token=old", {})
    assert (response.status, response.headers["Set-Cookie"]) == (403, None)


def test_a_page_that_is_open_takes_its_old_address_again(running: Running) -> None:
    response = answer(running, "GET", "/?token=old", {"Cookie": cookie_of(running)})
    assert response.status == 200 and response.headers["Set-Cookie"]


def test_the_page_listens_on_loopback_only(running: Running) -> None:
    assert urlsplit(running.url).hostname == "127.0.0.1"


def test_a_forged_websocket_is_closed_before_it_opens() -> None:
    assert websocket_answers("evil.example", "http://evil.example") == ["websocket.close"]
    assert websocket_answers("127.0.0.1:7860", "http://evil.example") == ["websocket.close"]
    assert websocket_answers("127.0.0.1:7860", "http://127.0.0.1:7860", "") == ["websocket.close"]
    assert websocket_answers("127.0.0.1:7860", "http://127.0.0.1:7860") == ["websocket.accept"]


def websocket_answers(host: str, origin: str, token: str = "secret") -> list[str]:
    """The kinds of messages that a guarded websocket route answers a handshake with."""
    sent: list[str] = []

    async def send(message: Message) -> None:
        sent.append(message["type"])

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def route(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})

    headers = [
        (b"host", host.encode()),
        (b"origin", origin.encode()),
        (b"authorization", f"Bearer {token}".encode()),
    ]
    scope = {"type": "websocket", "path": "/foresight/page", "query_string": b"", "headers": headers}
    asyncio.run(Guard(route, Key("secret", 7860))(scope, receive, send))
    return sent
