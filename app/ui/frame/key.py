"""The page's key. Every user of this machine can reach 127.0.0.1, so a browser must show that it may use the page.

A token is made at each start. The address that the app prints and opens contains it.

    GET /?token=...          sets a cookie, and redirects to / without the token; the address that the app opens in
                             a browser has a code instead, which can be used once
    Cookie                   what the browser sends from then on: a second secret, not the token itself
    Authorization: Bearer    the token as programs send it: a second start, and the self-check

A request without any of these gets 403, and at / a form that asks for the token.
"""

import secrets
from base64 import b64encode
from functools import cache
from hmac import compare_digest
from html import escape
from string import Template

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from app.settings import assets_dir

NO_KEY = "Foresight needs its key. Open the address that it printed when it was started."
WRONG_KEY = "That is not the current key. Foresight makes a new one at each start."
REDIRECT = '<meta http-equiv="refresh" content="0; url=/">'
REDIRECT_PAGE = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Foresight</title>
<meta name="color-scheme" content="light dark"><script>location.replace("/")</script>{REDIRECT}</head></html>"""
"""A page in place of a redirect: after a click on another site's link a redirect would come without the cookie."""
NO_STORE = {"Cache-Control": "no-store"}


class Key:
    """Checks who may use the page at this port. With an empty token everybody may."""

    def __init__(self, token: str, port: int, codes: set[str] | None = None) -> None:
        """Each of `codes` can be used once in place of the token."""
        self._token = token
        self._codes = codes if codes is not None else set()
        self._cookie = secrets.token_urlsafe(32)
        self._cookie_name = f"foresight-{port}"  # cookies are sent to every port

    def refusal(self, request: HTTPConnection) -> Response | None:
        """Return the response to a request without the key or with it in its URL; None if it may pass."""
        is_at_root = request.scope.get("method") == "GET" and request.scope["path"] == "/"
        if not self._token or (
            self._has_key(request) and not (is_at_root and "token" in request.query_params)
        ):
            return None
        if not is_at_root:
            return PlainTextResponse(NO_KEY, 403, NO_STORE)
        given = request.query_params.get("token", "")
        if self._has_key(request) or self._redeem(given.strip().rpartition("token=")[2]):
            return self._redirect()
        return _form(WRONG_KEY if given else "", request.headers.get("sec-fetch-site", "none"))

    def _redeem(self, given: str) -> bool:
        if given in self._codes:
            self._codes.discard(given)
            return True
        return _is_same(given, self._token)

    def _has_key(self, request: HTTPConnection) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _is_same(token.strip(), self._token):
            return True
        return _is_same(request.cookies.get(self._cookie_name, ""), self._cookie)

    def _redirect(self) -> Response:
        response = HTMLResponse(REDIRECT_PAGE, headers=NO_STORE)
        response.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="strict")
        return response


def _is_same(given: str, secret: str) -> bool:
    return compare_digest(given.encode(errors="replace"), secret.encode())


def _form(problem: str, fetch_site: str) -> Response:
    """The form. A link on another site comes without the browser's cookie, so the page is loaded a second time."""
    page = _template().substitute(
        onward=REDIRECT if fetch_site in ("cross-site", "same-site") else "",
        problem=f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else "",
        icon=_icon(),
    )
    return HTMLResponse(page, 403, NO_STORE)


@cache
def _template() -> Template:
    return Template((assets_dir() / "ui" / "key.html").read_text(encoding="utf-8"))


@cache
def _icon() -> str:
    return f"data:image/svg+xml;base64,{b64encode((assets_dir() / 'ui' / 'icon.svg').read_bytes()).decode()}"
