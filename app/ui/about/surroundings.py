"""What the page tells about the app and checks of it, handed in by main."""

import secrets
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from app.network_log import NetworkLog


class Database(Protocol):
    """The file that chats are kept in."""

    def is_healthy(self) -> str:
        """What is wrong with it in a sentence; "" when nothing is. Raises StoreError where it cannot be checked."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the app keeps its files, whom it talks to, where chats are kept, if they are, and what the person must
    be told of how it began."""

    data_dir: Path
    hub_cache: Path
    log: Path
    outside: NetworkLog
    database: Database | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Door:
    """Where the page is served, and the token that opens it, if it needs one; `codes` open it once each. `leaving`
    ends the app; `wanted` brings its own window, if any, to the front."""

    host: str
    port: int
    is_native: bool = False
    token: str = ""
    codes: set[str] = field(default_factory=set)
    leaving: threading.Event = field(default_factory=threading.Event)
    wanted: threading.Event = field(default_factory=threading.Event)

    @property
    def origin(self) -> str:
        """The page's address without the token."""
        return f"http://{self.host}:{self.port}"

    @property
    def address(self) -> str:
        """What the person opens, as often as they like."""
        return f"{self.origin}/?token={self.token}" if self.token else self.origin

    def address_once(self) -> str:
        """The address with a code in place of the token: a browser is told it as an argument, which every user of
        the machine may read, and it is void once the browser has opened it."""
        if not self.token:
            return self.origin
        self.codes.add(code := secrets.token_urlsafe(32))
        return f"{self.origin}/?token={code}"
