"""Decides who may use the page. Each of its requests is checked before any route, also uploads and WebSockets.

Requests from other sites are refused (web/origin_check.py). Other users and programs of this machine have no key. A
key is made at each start; the address that the app prints contains it.

    GET /?key=...            sets a cookie, and redirects to / without the key; the address that the app opens in
                             a browser has a one-time code in place of the key
    Cookie                   the browser sends this with later requests: a second secret, not the key itself
    Authorization: Bearer    the key as programs send it: a second start, and the self-check

A request without any of these gets 403; for GET / this is a form that asks for the key. The query of a request,
which may have a key, is not logged.
"""

import logging
import secrets
from base64 import b64encode
from functools import cache
from hmac import compare_digest
from html import escape
from string import Template

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.settings import assets_dir
from app.web.origin_check import refusal

NO_KEY = "Foresight needs its key. Open the address that it printed when it was started."
WRONG_KEY = "That is not the current key. Foresight makes a new one at each start."
REDIRECT = '<meta http-equiv="refresh" content="0; url=/">'
REDIRECT_PAGE = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Foresight</title>
<meta name="color-scheme" content="light dark"><script>location.replace("/")</script>{REDIRECT}</head></html>"""
"""A page in place of a redirect, because after a click on another site's link the redirected request would come
without the cookie."""
NO_STORE = {"Cache-Control": "no-store"}


class KeyCheck:
    """Checks which requests may use the page at this port. If the key is empty, all requests may."""

    def __init__(self, key: str, port: int, codes: set[str] | None = None) -> None:
        """Take the secrets of this start. Each of `codes` can be used once in place of the key."""
        self._key = key
        self._codes = codes if codes is not None else set()
        self._cookie = secrets.token_urlsafe(32)
        self._cookie_name = f"foresight-{port}"  # cookies are sent to every port

    def refusal(self, request: HTTPConnection) -> Response | None:
        """Return the response to a request without the key, or to one for / with a key in its URL; else None."""
        is_at_root = request.scope.get("method") == "GET" and request.scope["path"] == "/"
        if not self._key or (self._has_key(request) and not (is_at_root and "key" in request.query_params)):
            return None
        if not is_at_root:
            return PlainTextResponse(NO_KEY, 403, NO_STORE)
        given = request.query_params.get("key", "")
        if not self._has_key(request) and not self._redeem(given.strip().rpartition("key=")[2]):
            return _form(WRONG_KEY if given else "", request.headers.get("sec-fetch-site", "none"))
        response = HTMLResponse(REDIRECT_PAGE, headers=NO_STORE)
        response.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="strict")
        return response

    def _redeem(self, given: str) -> bool:
        if given in self._codes:
            self._codes.discard(given)
            return True
        return _is_same(given, self._key)

    def _has_key(self, request: HTTPConnection) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _is_same(given.strip(), self._key):
            return True
        return _is_same(request.cookies.get(self._cookie_name, ""), self._cookie)


def _is_same(given: str, secret: str) -> bool:
    return compare_digest(given.encode(errors="replace"), secret.encode())


def _form(problem: str, fetch_site: str) -> Response:
    """Return the form. After a click on another site's link, the form reloads the page, because the request of the
    click has no cookie."""
    page = _template().substitute(
        onward=REDIRECT if fetch_site in ("cross-site", "same-site") else "",
        problem=f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else "",
    )
    return HTMLResponse(page, 403, NO_STORE)


@cache
def _template() -> Template:
    assets = assets_dir() / "ui"
    icon = f"data:image/svg+xml;base64,{b64encode((assets / 'icon.svg').read_bytes()).decode()}"
    return Template(Template((assets / "key.html").read_text(encoding="utf-8")).safe_substitute(icon=icon))


log = logging.getLogger(__name__)

# The page may fetch only from its own address, because the address of an image in a reply could contain secrets.
# Gradio's page has inline scripts and compiles its templates with `new Function`. Not every browser counts a
# WebSocket to the page's own address as 'self'.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'", "connect-src 'self'{sockets}",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'", "img-src 'self' data: blob:", "font-src 'self' data:",
        "media-src 'self' blob:", "worker-src 'self' blob:", "object-src 'none'", "base-uri 'self'",
        "form-action 'self'", "frame-ancestors 'none'",
    )
)  # fmt: skip
SECURITY_HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """ASGI middleware around the page's whole app. It checks requests before all routes and other middleware."""

    def __init__(self, app: ASGIApp, check: KeyCheck) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):  # the app starts or ends
            await self._app(scope, receive, send)
        elif refused := refusal(scope.get("method", "GET"), scope.get("path", "/"), Headers(scope=scope)):
            status, sentence = refused
            await _refuse(PlainTextResponse(sentence, status), scope, receive, _with_headers(send, ""))
        else:
            request = HTTPConnection(scope)
            guarded = _with_headers(send, f" ws://{request.headers['host']}")
            if answer := self._check.refusal(request):
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
    """Add the security headers to each response; the page may open WebSockets to the addresses in `sockets`."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(SECURITY_HEADERS)
            headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY.format(sockets=sockets)
        await send(message)

    return send_with_headers
