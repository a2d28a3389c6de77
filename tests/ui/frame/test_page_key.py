"""Forged requests never reach a route. A real server answers on a real port."""

import asyncio
import logging
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPResponse
from itertools import repeat
from urllib.parse import urlsplit

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.ui import Running
from app.ui.frame.page_key import Guard, KeyCheck
from tests.ui.conftest import key_of

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
    ("POST", "/?key=x", b"", {}),
)


LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
"""What a browser says of a click on another site's link."""


def answer(shared: Running, method: str, path: str, headers: Mapping[str, str], *body: bytes) -> HTTPResponse:
    """What the server says to a request with exactly these headers, Host included."""
    connection = HTTPConnection("127.0.0.1", shared.port, timeout=300)
    connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in {**headers, "Content-Length": str(sum(map(len, body)))}.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    response = connection.getresponse()
    connection.close()
    return response


def cookie_of(shared: Running) -> str:
    """The cookie that a browser gets for the key."""
    got = answer(shared, "GET", f"/?key={shared.endpoint.key}", {}).headers["Set-Cookie"]
    return str(got).partition(";")[0]


@pytest.mark.parametrize(("method", "path", "body", "headers"), ROUTES)
def test_a_foreign_host_gets_400_on_every_route(
    shared: Running, method: str, path: str, body: bytes, headers: dict[str, str]
) -> None:
    for host in ("evil.example", f"evil.example:{shared.port}", "127.0.0.1.evil.example", "a@127.0.0.1", ""):
        forged = {**headers, **key_of(shared), "Host": host, "Origin": f"http://{host}"}
        assert answer(shared, method, path, forged, body).status == 400, host


@pytest.mark.parametrize(("method", "path", "body", "headers"), ROUTES)
def test_a_foreign_origin_gets_403_on_every_route(
    shared: Running, method: str, path: str, body: bytes, headers: dict[str, str]
) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{shared.port}"):
        forged = {**headers, **key_of(shared), "Origin": origin}
        assert answer(shared, method, path, forged, body).status == 403, origin


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_the_browser_says_comes_from_another_site_gets_403(shared: Running, site: str) -> None:
    key = key_of(shared)
    image = {**key, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    frame = {**key, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    form = {**key, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert answer(shared, "GET", "/config", image).status == 403
    assert answer(shared, "GET", "/", frame).status == 403
    assert answer(shared, "POST", "/gradio_api/upload", {**MULTIPART, **form}, UPLOAD).status == 403


def test_a_link_on_another_page_may_open_the_app(shared: Running) -> None:
    link = {**LINK, **key_of(shared)}
    assert answer(shared, "GET", "/", link).status == 200
    for path in ("/config", "/foresight/chats.json", "/foresight/backup.sqlite"):
        assert answer(shared, "GET", path, link).status == 403, "and nothing else"


def test_the_page_itself_and_programs_of_this_machine_pass(shared: Running) -> None:
    own = {**key_of(shared), "Origin": shared.endpoint.origin, "Sec-Fetch-Site": "same-origin"}
    assert answer(shared, "GET", "/", key_of(shared)).status == 200
    local = {**key_of(shared), "Host": f"localhost:{shared.port}"}
    assert answer(shared, "GET", "/", local).status == 200
    assert answer(shared, "POST", "/gradio_api/upload", {**MULTIPART, **own}, UPLOAD).status == 200


@pytest.mark.parametrize(("megabytes", "status"), [(40, 200), (301, 413)])
def test_uploads_are_taken_up_to_the_limit(shared: Running, megabytes: int, status: int) -> None:
    before, after = UPLOAD.split(b"hello")
    chunks = (before, *repeat(b"x" * 2**20, megabytes), after)
    headers = {**MULTIPART, **key_of(shared)}
    assert answer(shared, "POST", "/gradio_api/upload", headers, *chunks).status == status


def test_what_passes_is_logged_without_its_query(shared: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "app.ui.frame.page_key")
    answer(shared, "GET", f"/?key={shared.endpoint.key}", {})
    answer(shared, "GET", "/?secret=1", {})
    answer(shared, "GET", "/?secret=1", key_of(shared))
    assert caplog.messages == ["GET '/'"], "the first is led on, the second refused"


def test_every_answer_carries_the_security_headers(shared: Running) -> None:
    for headers in ({}, key_of(shared), {"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        got = answer(shared, "GET", "/", headers).headers
        assert "default-src 'self'" in got["Content-Security-Policy"]
        assert got["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in got


def test_the_page_may_open_websockets_at_its_own_address_and_no_other(shared: Running) -> None:
    for host in (f"127.0.0.1:{shared.port}", f"localhost:{shared.port}"):
        policy = answer(shared, "GET", "/", {"Host": host}).headers["Content-Security-Policy"]
        assert f"connect-src 'self' ws://{host};" in policy
    assert (
        "ws://" not in answer(shared, "GET", "/", {"Host": "evil.example"}).headers["Content-Security-Policy"]
    )


@pytest.mark.parametrize(("method", "path", "body", "headers"), ROUTES)
def test_without_the_key_every_route_answers_403(
    shared: Running, method: str, path: str, body: bytes, headers: dict[str, str]
) -> None:
    cookie = cookie_of(shared).partition("=")[0]
    for key in (
        {},
        LINK,
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {shared.endpoint.key}x"},
        {"Authorization": f"Basic {shared.endpoint.key}"},
        {"Authorization": "Bearer ü"},
        {"Cookie": f"{cookie}="},
        {"Cookie": f"{cookie}={shared.endpoint.key}"},
    ):
        assert answer(shared, method, path, {**headers, **key}, body).status == 403, key


def test_the_key_becomes_a_cookie_that_opens_every_route(shared: Running) -> None:
    cookie = {"Cookie": f"other=1; {cookie_of(shared)}"}
    assert shared.endpoint.key not in cookie["Cookie"]
    for path in ("/", "/config", "/foresight/chats.json"):
        assert answer(shared, "GET", path, cookie).status == 200, path


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(shared: Running) -> None:
    response = answer(shared, "GET", f"/?key={shared.endpoint.key}", LINK)
    assert (response.status, response.headers["Cache-Control"]) == (200, "no-store")
    name, *attributes = response.headers["Set-Cookie"].split("; ")
    assert name.startswith(f"foresight-{shared.port}=")
    assert {attribute.lower() for attribute in attributes} == {"httponly", "path=/", "samesite=strict"}


def test_a_key_of_another_start_is_told_and_gets_no_cookie(shared: Running) -> None:
    response = answer(shared, "GET", "/?key=old", {})
    assert (response.status, response.headers["Set-Cookie"]) == (403, None)


def test_a_page_that_is_open_takes_its_old_address_again(shared: Running) -> None:
    response = answer(shared, "GET", "/?key=old", {"Cookie": cookie_of(shared)})
    assert response.status == 200 and response.headers["Set-Cookie"]


def test_the_page_listens_on_loopback_only(shared: Running) -> None:
    assert urlsplit(shared.url).hostname == "127.0.0.1"


def test_a_forged_websocket_is_closed_before_it_opens() -> None:
    assert websocket_answers("evil.example", "http://evil.example") == ["websocket.close"]
    assert websocket_answers("127.0.0.1:7860", "http://evil.example") == ["websocket.close"]
    assert websocket_answers("127.0.0.1:7860", "http://127.0.0.1:7860", "") == ["websocket.close"]
    assert websocket_answers("127.0.0.1:7860", "http://127.0.0.1:7860") == ["websocket.accept"]


def websocket_answers(host: str, origin: str, key: str = "secret") -> list[str]:
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
        (b"authorization", f"Bearer {key}".encode()),
    ]
    scope = {"type": "websocket", "path": "/foresight/page", "query_string": b"", "headers": headers}
    asyncio.run(Guard(route, KeyCheck("secret", 7860))(scope, receive, send))
    return sent
