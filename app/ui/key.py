"""The page's key: 127.0.0.1 is every user's of this machine, so who asks for the page must show that it is theirs.

A token is made at each start. It is in the address that the app opens and prints.

    GET /?token=...          sets a cookie, and goes on to / without the token in the address; what the app opens
                             in a browser has a code instead, which is good for once
    Cookie                   what the page shows from then on; a second secret, so that the token is not kept
    Authorization: Bearer    the token as programs send it: a second start, and the self-check

Who has none of these gets 403; at / with a form that asks for the token.
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

NO_KEY = "Foresight needs its key: open the address that it printed when it was started."
WRONG_KEY = "That is not the key of the app that runs now: each start makes a new one."
ONWARD = '<meta http-equiv="refresh" content="0; url=/">'
ENTERING = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Foresight</title>
<meta name="color-scheme" content="light dark"><script>location.replace("/")</script>{ONWARD}</head></html>"""
"""A page and no redirect: after a click on another site's link a redirect would be sent without the cookie."""
UNSEEN = {"Cache-Control": "no-store"}


class Key:
    """Who may use the page at this port: everybody when the token is empty."""

    def __init__(self, token: str, port: int, codes: set[str] | None = None) -> None:
        """`codes` are as good as the token, each of them once."""
        self._token = token
        self._codes = codes if codes is not None else set()
        self._cookie = secrets.token_urlsafe(32)
        self._cookie_name = f"foresight-{port}"  # cookies are sent to every port

    def refusal(self, asked: HTTPConnection) -> Response | None:
        """What to answer instead of the page, to who has no key or just brings it; None for one that may pass."""
        is_at_root = asked.scope.get("method") == "GET" and asked.scope["path"] == "/"
        if not self._token or (self._is_shown(asked) and not (is_at_root and "token" in asked.query_params)):
            return None
        if not is_at_root:
            return PlainTextResponse(NO_KEY, 403, UNSEEN)
        given = asked.query_params.get("token", "")
        if self._is_shown(asked) or self._opens(given.strip().rpartition("token=")[2]):
            return self._entering()
        return _asking(WRONG_KEY if given else "", asked.headers.get("sec-fetch-site", "none"))

    def _opens(self, given: str) -> bool:
        if given in self._codes:
            self._codes.discard(given)
            return True
        return _is_same(given, self._token)

    def _is_shown(self, asked: HTTPConnection) -> bool:
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _is_same(token.strip(), self._token):
            return True
        return _is_same(asked.cookies.get(self._cookie_name, ""), self._cookie)

    def _entering(self) -> Response:
        response = HTMLResponse(ENTERING, headers=UNSEEN)
        response.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="strict")
        return response


def _is_same(given: str, secret: str) -> bool:
    return compare_digest(given.encode(errors="replace"), secret.encode())


def _asking(problem: str, came_from: str) -> Response:
    """The form. A link on another site comes without the cookie that the browser may have: a second try has it."""
    page = _template().substitute(
        onward=ONWARD if came_from in ("cross-site", "same-site") else "",
        problem=f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else "",
        icon=_icon(),
    )
    return HTMLResponse(page, 403, UNSEEN)


@cache
def _template() -> Template:
    return Template((assets_dir() / "ui" / "key.html").read_text(encoding="utf-8"))


@cache
def _icon() -> str:
    return f"data:image/svg+xml;base64,{b64encode((assets_dir() / 'ui' / 'icon.svg').read_bytes()).decode()}"
