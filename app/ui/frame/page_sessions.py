"""The open pages, and what the server keeps for each of them: its chat, its search results, its X-ray.

Gradio's own session state is not used: with a `gr.State` every page holds a connection open, of which a browser has
six for all tabs together. The values here live as long as their page, by Gradio's session hash:

    load event   ->  open         the page exists
    WebSocket    ->  connect      the page is drawn: see page_socket.py
    closed       ->  disconnect   its values go
    lost         ->  disconnect   its values stay for a while, since it may come back
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
KEPT = 64
"""How many pages without a connection are kept; a page that was lost longest ago goes first."""


class PageValue(Generic[T]):
    """A value that each page has for itself, made when it is first asked for."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.make = make


class PageSession:
    """One page's values; `connections` counts its WebSockets: a page may come back before its loss was noticed."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.connections = 0
        self._values: dict[PageValue[Any], Any] = {}

    def get(self, value: PageValue[T]) -> T:
        """Return the page's value, which is made when it is first asked for."""
        if value not in self._values:
            self._values[value] = value.make()
        kept: T = self._values[value]
        return kept

    def set(self, value: PageValue[T], now: T) -> None:
        """Keep another one."""
        self._values[value] = now


class Pages:
    """All pages that are open, or were lost a short while ago. Safe to use from any thread."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, PageSession] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pages)

    def open(self, session: str) -> PageSession:
        """Add a new page."""
        page = PageSession(session)
        with self._lock:
            self._pages[session] = page
            self._forget_oldest()
        return page

    def find(self, session: str | None) -> PageSession | None:
        """Return the page of this session; None if an earlier run of the app drew it, or it is long gone."""
        return self._pages.get(session or "")

    def connect(self, session: str) -> PageSession | None:
        """Count a WebSocket of the page, and return the page; None if there is none."""
        with self._lock:
            if page := self._pages.get(session):
                page.connections += 1
            return page

    def disconnect(self, page: PageSession, is_closed: bool) -> None:
        """Count the end of a WebSocket: the page was closed, or lost for a reason that may pass."""
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
