"""The API beside the page: turned on and off while the app runs."""

from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.errors import NO_RETRY, error_body
from app.api.key import KeyFile

OFF = "The API is off. Turn it on in Foresight, under Settings > Connect."


class ApiSwitch:
    """ASGI app: the API while it is on, else 404 for everybody. Replies under way are written to their end."""

    def __init__(self, build: Callable[[KeyFile], ASGIApp], key: KeyFile) -> None:
        self._build = build
        self._key = key
        self._api: ASGIApp | None = None
        self.is_on = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.is_on and self._api:
            await self._api(scope, receive, send)
        else:
            await JSONResponse(error_body(OFF, 404, None, "api_off"), 404, NO_RETRY)(scope, receive, send)

    def turn(self, is_on: bool) -> None:
        """Turn it on or off. It is built, and its key made, when it is first on. Raises SettingsNotSaved."""
        if is_on:
            self._key.read()
            self._api = self._api or self._build(self._key)
        self.is_on = is_on

    def key(self) -> str:
        """The key that clients send. Raises SettingsNotSaved."""
        return self._key.read()

    def renew_key(self) -> None:
        """Make another key; the old one is void at once. Raises SettingsNotSaved."""
        self._key.renew()
