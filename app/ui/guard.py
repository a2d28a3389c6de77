"""The door: every request passes here before any route, uploads and websockets included.

A page on 127.0.0.1 has no password, so any web page that the person visits could try to use it:

    DNS rebinding      evil.example resolves to 127.0.0.1: its Host header gives it away       -> 400
    forged request     a form or a fetch of another site, or another port: Origin, Sec-Fetch   -> 403
    remote content     an image in a reply would tell its server what was said: the
                       Content-Security-Policy lets the page fetch from its own address alone

Requests without Origin are the page's own GETs, or programs on this machine (curl); those pass.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OWN_NAMES = frozenset({"127.0.0.1", "localhost"})

# Gradio's page has inline scripts and compiles its templates with `new Function`.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "media-src 'self' blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def refusal(method: str, path: str, headers: Headers) -> tuple[int, str] | None:
    """Why a request is turned away, as status and sentence; None for one that may pass."""
    host = headers.get("host", "")
    if len(headers.getlist("host")) != 1 or _name(host) not in OWN_NAMES:
        return 400, "This address is not Foresight's: open http://127.0.0.1 with its port."
    if any(origin.lower() != f"http://{host.lower()}" for origin in headers.getlist("origin")):
        return 403, "Requests of other sites are refused."
    if _comes_from_elsewhere(method, path, headers):
        return 403, "Requests of other sites are refused."
    return None


def _name(host: str) -> str:
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018  (reading it raises ValueError on a port that is no number)
    except ValueError:
        return ""
    return (parts.hostname or "") if parts.netloc == host and "@" not in host else ""


def _comes_from_elsewhere(method: str, path: str, headers: Headers) -> bool:
    """Whether the browser says that another site sent this; a clicked link (top-level GET) may open the page."""
    if headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return False
    is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return not (is_link and method == "GET" and path == "/")


class Guard:
    """ASGI middleware around the whole app, so that no route, mount or other middleware is outside."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):  # lifespan
            await self._app(scope, receive, send)
        elif refused := _refusal_of(scope):
            await _refuse(*refused, scope, receive, send)
        else:
            await self._app(scope, receive, _with_security_headers(send))


def _refusal_of(scope: Scope) -> tuple[int, str] | None:
    return refusal(scope.get("method", "GET"), scope.get("path", "/"), Headers(scope=scope))


async def _refuse(status: int, sentence: str, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        # Closing before accepting makes the server answer the handshake with 403.
        await send({"type": "websocket.close", "code": 1008, "reason": sentence})
        return
    await PlainTextResponse(sentence, status)(scope, receive, _with_security_headers(send))


def _with_security_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(SECURITY_HEADERS)
        await send(message)

    return send_with_headers
