"""What main hands to the page: where the app keeps its files, the API, and where the page is served."""

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from starlette.types import Receive, Scope, Send

from app.system.network_log import NetworkLog


class CheckableDatabase(Protocol):
    """The file that chats are kept in."""

    def is_healthy(self) -> str:
        """What is wrong with it in a sentence; "" when nothing is. Raises StoreError where it cannot be checked."""


class ApiControl(Protocol):
    """The API for other programs, beside the page."""

    @property
    def is_on(self) -> bool:
        """Whether it answers."""

    def turn(self, is_on: bool) -> None:
        """Turn it on or off. Raises SettingsNotSaved."""

    def key(self) -> str:
        """The key that clients send. Raises SettingsNotSaved."""

    def renew_key(self) -> None:
        """Make another key; the old one is void at once. Raises SettingsNotSaved."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as an ASGI app."""


@dataclass(frozen=True, slots=True)
class AppContext:
    """The app's folders, its log of contacts outside this machine, the API, and the database.

    `note` tells what the person must know, such as that a damaged file was replaced; "" for nothing."""

    data_dir: Path
    hub_cache: Path
    log: Path
    outside: NetworkLog
    api: ApiControl
    database: CheckableDatabase | None = None
    note: Callable[[], str] = str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the page is served. `token` gives access if one is needed; each of `one_time_codes` does so once.

    `quit_requested` ends the app; `raise_requested` brings its own window, if it has one, to the front."""

    host: str
    port: int
    is_native: bool = False
    token: str = ""
    one_time_codes: set[str] = field(default_factory=set)
    quit_requested: threading.Event = field(default_factory=threading.Event)
    raise_requested: threading.Event = field(default_factory=threading.Event)

    @property
    def origin(self) -> str:
        """The page's address without the token."""
        return f"http://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The page's address with the token. It can be opened any number of times."""
        return f"{self.origin}/?token={self.token}" if self.token else self.origin

    def one_time_url(self) -> str:
        """The page's address with a code that is void once the browser has used it.

        A browser gets the address as an argument, which every user of the machine can read."""
        if not self.token:
            return self.origin
        self.one_time_codes.add(code := secrets.token_urlsafe(32))
        return f"{self.origin}/?token={code}"
