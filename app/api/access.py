"""Checks every HTTP request before it reaches a route of the API, and turns the API on and off."""

from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.api_key import ApiKey, KeyFile, accepts
from app.api.errors import NO_RETRY, ApiError, error_body
from app.web.origin_check import OF_BROWSERS, OWN_NAMES, IsOwnName, Origins, refusal

OPEN_PATH = "/health"
"""The path that needs no key, because its answer says only that the server runs."""
LARGEST_BODY = 32 * 2**20
"""Maximum bytes of a request body. The text of a million tokens has about 4 MB."""
NO_KEY = (
    "The API accepts only requests with its key: send 'Authorization: Bearer KEY'. The key is in the file api-key "
    "of the data folder, unless the server was started with another key."
)
OFF = "The API is off. Turn it on in Foresight, under Settings > Connect."
TOO_LARGE = f"The request is larger than {LARGEST_BODY // 2**20} MB: send less in one request."

POLICY_VIOLATION = 1008
"""The code with which every WebSocket is closed (RFC 6455), because the API does not use WebSockets."""


def own_names(host: str) -> IsOwnName:
    """Return a function that checks whether a Host header names a server that listens at this address.

    If the server listens on all interfaces, any IP address is accepted. This is safe, because a page of another
    site can reach the server only by DNS rebinding, which needs a host name."""
    names = OWN_NAMES | {host.lower()}
    is_everywhere = host in ("0.0.0.0", "::")

    def is_own(name: str) -> bool:
        with suppress(ValueError):
            return name in names or (is_everywhere and bool(ip_address(name)))
        return False

    return is_own


class AccessCheck:
    """ASGI middleware that checks Host, Origin, key and size of HTTP requests, and closes WebSockets."""

    def __init__(
        self, app: ASGIApp, key: ApiKey, is_own: IsOwnName = OWN_NAMES.__contains__, origins: Origins = tuple
    ) -> None:
        self._app, self._key, self._is_own, self._origins = app, key, is_own, origins
        everything = {"allow_methods": ("*",), "allow_headers": ("*",), "allow_origin_regex": ".*"}
        self._for_browsers = CORSMiddleware(self._checked, **everything)  # type: ignore[arg-type]
        self._for_browsers.allow_private_network = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._is_allowed(Headers(scope=scope)):
            await self._for_browsers(scope, receive, send)
        else:
            await self._checked(scope, receive, send)

    def _is_allowed(self, headers: Headers) -> bool:
        """Return whether the request has exactly one Origin header, with an origin that the user has allowed."""
        origins = headers.getlist("origin")
        return len(origins) == 1 and origins[0].lower() in self._origins()

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        if refused := self._refused(scope):
            headers = NO_RETRY | ({"WWW-Authenticate": "Bearer"} if refused.status == 401 else {})
            body = error_body(refused, scope["path"])
            await JSONResponse(body, refused.status, headers)(scope, receive, send)
        else:
            await self._app(scope, _limited(receive), send)

    def _refused(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        known = headers
        if self._is_allowed(headers):
            known = Headers(raw=[pair for pair in headers.raw if pair[0] not in OF_BROWSERS])
        if found := refusal(scope["method"], "", known, self._is_own):
            status, sentence = found
            return ApiError(sentence, status=status)
        if scope["path"] != OPEN_PATH and not accepts(self._key, _key_in(headers)):
            return ApiError(NO_KEY, None, 401, "invalid_api_key")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > LARGEST_BODY:
            return ApiError(TOO_LARGE, status=413)
        return None


def _key_in(headers: Headers) -> str:
    """Return the key from a Bearer token (OpenAI's clients) or from x-api-key (Anthropic's clients)."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def _limited(receive: Receive) -> Receive:
    """Return a `receive` that reports a disconnected client once a body exceeds LARGEST_BODY bytes.

    This also limits requests without Content-Length."""
    received = 0

    async def receive_some() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        return message if received <= LARGEST_BODY else {"type": "http.disconnect"}

    return receive_some


class ApiSwitch:
    """ASGI app that passes requests to the API while the API is on, and answers 404 while it is off.

    Turning the API off does not stop the replies that are being written."""

    def __init__(self, build: Callable[[KeyFile], ASGIApp], key: KeyFile) -> None:
        self._build = build
        self.key = key
        self._api: ASGIApp | None = None
        self.is_on = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.is_on and self._api:
            await self._api(scope, receive, send)
        else:
            body = error_body(ApiError(OFF, None, 404, "api_off"), scope["path"])
            await JSONResponse(body, 404, NO_RETRY)(scope, receive, send)

    def turn(self, is_on: bool) -> None:
        """Turn the API on or off.

        Turning it on writes a key if there is none, and builds the API the first time. Raises
        SettingsNotSaved if the key cannot be read, or a new key cannot be written."""
        if is_on:
            self.key.read()
            self._api = self._api or self._build(self.key)
        self.is_on = is_on
