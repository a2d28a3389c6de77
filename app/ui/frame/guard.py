"""Checks every request before any route, uploads and WebSockets included.

Any web page that the person visits, and any other user of this machine, could try to use a page on 127.0.0.1:

    DNS rebinding      evil.example resolves to 127.0.0.1: its Host header shows it            -> 400
    forged request     a form or a fetch of another site, or another port: Origin, Sec-Fetch   -> 403
    remote content     an image in a reply could send its server what was written: the
                       Content-Security-Policy lets the page fetch from its own address alone
    another program    it has no token and no cookie (app/ui/frame/key.py)                           -> 403

Requests without Origin are the page's own GETs, or programs on this machine (curl): those need the key as well.

What passes is logged at INFO, which the app's log leaves out: method and path, but not the query with the token.
"""

import logging

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.ui.frame.key import Key
from app.web.origin_check import refusal

log = logging.getLogger(__name__)

# Gradio's page has inline scripts and compiles its templates with `new Function`. Not every browser counts a
# WebSocket to the page's own address as 'self'.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "connect-src 'self'{sockets}",
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
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """ASGI middleware around the whole app, so that no route, mount or other middleware is outside."""

    def __init__(self, app: ASGIApp, key: Key) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):  # lifespan
            await self._app(scope, receive, send)
        elif refused := refusal(scope.get("method", "GET"), scope.get("path", "/"), Headers(scope=scope)):
            status, sentence = refused
            await _refuse(PlainTextResponse(sentence, status), scope, receive, _with_headers(send, ""))
        else:
            request = HTTPConnection(scope)
            guarded = _with_headers(send, f" ws://{request.headers['host']}")
            if answer := self._key.refusal(request):
                await _refuse(answer, scope, receive, guarded)
            else:
                log.info("%s %r", scope.get("method", "WebSocket"), scope["path"])
                await self._app(scope, receive, guarded)


async def _refuse(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        # Closing before accepting makes the server answer the handshake with 403.
        await send({"type": "websocket.close", "code": 1008, "reason": "Refused."})
    else:
        await answer(scope, receive, send)


def _with_headers(send: Send, sockets: str) -> Send:
    """Adds the security headers to an answer; `sockets` are the addresses of WebSockets that the page may open."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(SECURITY_HEADERS)
            headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY.format(sockets=sockets)
        await send(message)

    return send_with_headers
