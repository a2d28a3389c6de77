"""The open pages, and what the server keeps for each of them: its chat, its search results, its X-ray.

Gradio's own session state is not used, because with a `gr.State` every page keeps a connection open, and a browser
has only six for all tabs together. The values here are kept by Gradio's session hash, as long as their page
exists:

    load event   ->  open         the page exists
    WebSocket    ->  connect      the page is drawn: see page_socket.py
    closed       ->  disconnect   its values are deleted
    lost         ->  disconnect   its values are kept for a while, because the page may reconnect
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
KEPT = 64
"""How many pages without a connection are kept; the one lost longest ago is deleted first."""


class PageValue(Generic[T]):
    """A value that each page has of its own, made when the page first asks for it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.make = make


class PageSession:
    """One page's values.

    `connections` counts its WebSockets: a page may reconnect before its lost socket is noticed."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.connections = 0
        self._values: dict[PageValue[Any], Any] = {}

    def get(self, value: PageValue[T]) -> T:
        """Return the page's value. Makes it if the page has none yet."""
        if value not in self._values:
            self._values[value] = value.make()
        kept: T = self._values[value]
        return kept

    def set(self, value: PageValue[T], now: T) -> None:
        """Replace the page's value with `now`."""
        self._values[value] = now


class Pages:
    """All pages that are open, or were lost a short while ago. It can be used from any thread."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, PageSession] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pages)

    def open(self, session: str) -> PageSession:
        """Add a page; the oldest pages that no browser is connected to are forgotten if there are too many."""
        page = PageSession(session)
        with self._lock:
            self._pages[session] = page
            self._forget_oldest()
        return page

    def find(self, session: str | None) -> PageSession | None:
        """Return the page of this session; None if it is from before a restart of the app, or was lost long ago."""
        return self._pages.get(session or "")

    def connect(self, session: str) -> PageSession | None:
        """Count a WebSocket of the page and return the page; None if there is no page of this session."""
        with self._lock:
            if page := self._pages.get(session):
                page.connections += 1
            return page

    def disconnect(self, page: PageSession, is_closed: bool) -> None:
        """Count the end of a WebSocket.

        A closed page's values are deleted; a lost page's values are kept for a while."""
        with self._lock:
            page.connections -= 1
            if is_closed and not page.connections:
                self._pages.pop(page.session, None)
            elif page.session in self._pages:
                self._pages.move_to_end(page.session)
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        lost = [page for page in self._pages.values() if not page.connections]
        for page in lost[:-KEPT]:
            del self._pages[page.session]
