"""Checks every request to the API before any route: Host, Origin, key and size."""

from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import NO_RETRY, error_body
from app.api.key import ApiKey
from app.web.request_check import OWN_NAMES, IsOwnName, refusal

LARGEST_BODY = 32 * 2**20
"""Bytes. The longest context that a model has is a tenth of this."""
NO_KEY = (
    "The API needs its key, as 'Authorization: Bearer KEY': it is in the file api-key of the data folder."
)
TOO_LARGE = f"The request is larger than {LARGEST_BODY // 2**20} MB: send less at once."


def own_names(host: str) -> IsOwnName:
    """Which Host headers name a server that listens at this address.

    A page of another site can reach it by a name alone (DNS rebinding), so any number is its own where it listens
    at all of them."""
    names = OWN_NAMES | {host.lower()}
    is_everywhere = host in ("0.0.0.0", "::")
    return lambda name: name in names or (is_everywhere and _is_number(name))


def _is_number(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Gate:
    """ASGI middleware around the API."""

    def __init__(self, app: ASGIApp, key: ApiKey, is_own: IsOwnName = OWN_NAMES.__contains__) -> None:
        self._app, self._key, self._is_own = app, key, is_own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif refused := self._refused(scope):
            status, sentence, code = refused
            headers = NO_RETRY | ({"WWW-Authenticate": "Bearer"} if status == 401 else {})
            await JSONResponse(error_body(sentence, status, None, code), status, headers)(
                scope, receive, send
            )
        else:
            await self._app(scope, _limited(receive), send)

    def _refused(self, scope: Scope) -> tuple[int, str, str | None] | None:
        headers = Headers(scope=scope)
        if found := refusal(scope["method"], "", headers, self._is_own):
            return *found, None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if not self._key.accepts(given.strip() if scheme.lower() == "bearer" else ""):
            return 401, NO_KEY, "invalid_api_key"
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > LARGEST_BODY:
            return 413, TOO_LARGE, None
        return None


def _limited(receive: Receive) -> Receive:
    """Cuts the connection of a body without a length that grows too large."""
    received = 0

    async def receive_some() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        return message if received <= LARGEST_BODY else {"type": "http.disconnect"}

    return receive_some
