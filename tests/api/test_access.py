"""Who may not ask is refused on every route, before the route is known."""

import asyncio
import http.client
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from app.api.access import AccessCheck, own_names
from app.api.api_key import KeyFile, accepts
from app.api.application import RunningApi
from app.errors import SettingsNotSaved
from tests.api.conftest import KEY

ROUTES = (
    ("GET", "/v1/models"), ("GET", "/v1/models/demo"), ("GET", "/v1/openapi.json"),
    ("POST", "/v1/chat/completions"), ("POST", "/v1/completions"), ("POST", "/v1/embeddings"),
    ("POST", "/v1/responses"), ("OPTIONS", "/v1/chat/completions"), ("GET", "/no/such/route"),
)  # fmt: skip
BEARER = {"Authorization": f"Bearer {KEY}"}
STRANGERS: dict[str, dict[str, str]] = {
    "no key": {},
    "wrong key": {"Authorization": "Bearer sk-other"},
    "another scheme": {"Authorization": f"Basic {KEY}"},
    "foreign host": {**BEARER, "Host": "evil.example"},
    "foreign origin": {**BEARER, "Origin": "http://evil.example"},
    "another site": {**BEARER, "Sec-Fetch-Site": "cross-site"},
    "too large": {**BEARER, "Content-Length": str(2**40)},
}


def status(server: RunningApi, method: str, path: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=300)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_stranger_is_refused(server: RunningApi, method: str, path: str, stranger: str) -> None:
    assert 400 <= status(server, method, path, STRANGERS[stranger]) < 500


def test_whoever_has_the_key_may_ask(server: RunningApi) -> None:
    assert status(server, "GET", "/v1/models", BEARER) == 200
    assert status(server, "GET", "/v1/models", {**BEARER, "Host": f"localhost:{server.port}"}) == 200
    assert status(server, "GET", "/v1/models/none", BEARER) == 404
    assert status(server, "DELETE", "/v1/models", BEARER) == 405


def test_a_server_for_other_machines_has_its_own_names() -> None:
    everywhere, named = own_names("0.0.0.0"), own_names("box.local")
    assert everywhere("192.168.1.4") and everywhere("localhost") and not everywhere("evil.example")
    assert named("box.local") and not named("192.168.1.4")


ORIGIN = "app://obsidian.md"


async def asked(**headers: str) -> httpx.Response:
    """What a browser gets that sends these headers; underscores stand for hyphens."""

    async def here(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("here")(scope, receive, send)

    check = AccessCheck(here, KEY, origins=lambda: (ORIGIN,))
    method = "OPTIONS" if "access_control_request_method" in headers else "GET"
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(check), base_url="http://127.0.0.1:7861"
    ) as client:
        return await client.request(method, "/v1/models", headers=names)


def test_an_allowed_origin_may_ask_with_the_key_and_no_other_origin() -> None:
    def answer(**headers: str) -> httpx.Response:
        return asyncio.run(asked(**headers))

    key = BEARER["Authorization"]
    found = answer(origin=ORIGIN, authorization=key, sec_fetch_site="cross-site")
    assert found.text == "here" and found.headers["access-control-allow-origin"] == ORIGIN
    assert answer(origin=ORIGIN).status_code == 401
    assert answer(origin=ORIGIN, authorization=key, host="evil.example").status_code == 400
    for other in ("http://evil.example", "null", f"{ORIGIN}.evil.example"):
        assert answer(origin=other, authorization=key).status_code == 403
    asks = {
        "access_control_request_method": "POST",
        "access_control_request_headers": "authorization,x-api-key",
    }
    asks["access_control_request_private_network"] = "true"
    preflight = answer(origin=ORIGIN, **asks)
    assert preflight.status_code == 200 and preflight.headers["access-control-allow-origin"] == ORIGIN
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "x-api-key" in preflight.headers["access-control-allow-headers"]
    refused = answer(origin="http://evil.example", **asks)
    assert refused.status_code == 403 and "access-control-allow-origin" not in refused.headers


def test_a_websocket_is_closed() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def never(*_: object) -> None:
        raise AssertionError("the API was called")

    asyncio.run(AccessCheck(never, None)({"type": "websocket"}, never, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_the_key_is_made_once_and_kept_for_this_user(data_dir: Path) -> None:
    key = KeyFile(data_dir).read()
    assert KeyFile(data_dir).read() == key and accepts(KeyFile(data_dir), key)
    assert (data_dir / "api-key").stat().st_mode & 0o077 == 0
    assert not accepts(KeyFile(data_dir), "") and not accepts(KeyFile(data_dir), key + "x")


def test_a_new_key_voids_the_old_one(data_dir: Path) -> None:
    file = KeyFile(data_dir)
    old = file.read()
    new = file.renew()
    assert accepts(file, new) and not accepts(file, old) and KeyFile(data_dir).read() == new


def test_an_empty_file_gets_a_key(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "api-key").write_text("\n")
    assert KeyFile(data_dir).read().startswith("sk-foresight-")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsNotSaved, match="--data-dir"):
        KeyFile(tmp_path / "file").read()


def test_a_given_key_and_none() -> None:
    assert accepts("a", "a") and not accepts("a", "b")
    assert accepts(None, "")
