"""The open pages: what the server keeps for each, and the WebSocket that draws it.

A page's values (its chat, its search results, its X-ray) are kept under Gradio's session hash, as long as the page
exists:

    load event   ->  open         the page exists
    WebSocket    ->  connect      the page is drawn
    closed       ->  disconnect   its values are deleted
    lost         ->  disconnect   its values are kept for a page that reconnects, for up to KEPT lost pages

Each page has one WebSocket in place of `gr.State` and endless events. Each endless event would keep an HTTP
connection open, but a browser opens at most six to an address, for all its tabs together, and Gradio's queue runs
forty events at once. A WebSocket ends soon after its page: with a close frame, with the browser's process, or
because pings are not answered.

    page -> server    {"drawn": true}     the page shows the last frame
                      {"active": true}    the user uses the page
                      {"typed": text}     the text of the message box
                      {"typed": text, "left": chat, "opened": number}
                                          the page draws another chat; the text belongs to the chat that it left
    server -> page    {part: value, ...}  see page_updates.py
"""

import asyncio
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import fastapi

from app.ui.frame.page_updates import PageStream, PolledRenderer

T = TypeVar("T")
KEPT = 64
"""Maximum number of pages without a connection that are kept; the page that was lost first is deleted first."""
ROUTE = "/foresight/page"
UNKNOWN_PAGE = 4404
"""The code with which the server closes the WebSocket of an unknown page, which must be reloaded."""
NOT_UNDERSTOOD = 1007
FAILED = 1011
"""The code with which the server closes the WebSocket of a page that it cannot draw. The page then reconnects."""
CLOSED = (1000, 1001)
"""The codes with which the browser closes the WebSocket when its page is closed or left."""
log = logging.getLogger(__name__)


class PageValue(Generic[T]):
    """A kind of value that each page has for itself. A page's value is made at its first use."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.make = make


class PageSession:
    """One page's values. `connections` counts its WebSockets, because a page may reconnect before the end of the
    former one is noticed. `typed` is called with the text of its message box. `left` is called with a chat that the
    page has left, the text typed there, and `ChatState.opened` for the chat that the page shows now."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.connections = 0
        self.typed: Callable[[str], None] = lambda _text: None
        self.left: Callable[[str, str, int], None] = lambda _chat, _text, _opened: None
        self._values: dict[PageValue[Any], Any] = {}

    def get(self, value: PageValue[T]) -> T:
        if value not in self._values:
            self._values[value] = value.make()
        kept: T = self._values[value]
        return kept

    def set(self, value: PageValue[T], now: T) -> None:
        self._values[value] = now


class Pages:
    """All pages that are open, and the newest KEPT pages whose connection is lost. Can be used from any thread."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, PageSession] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pages)

    def open(self, session: str) -> PageSession:
        """Add a page. If more than KEPT pages have no connection, the oldest of these are forgotten."""
        page = PageSession(session)
        with self._lock:
            self._pages[session] = page
            self._forget_oldest()
        return page

    def find(self, session: str | None) -> PageSession | None:
        """Return the page of this session; None if the app was restarted since, or has forgotten the page."""
        return self._pages.get(session or "")

    def connect(self, session: str) -> PageSession | None:
        """Count a WebSocket of the page and return the page; None if there is no page of this session."""
        with self._lock:
            if page := self._pages.get(session):
                page.connections += 1
            return page

    def disconnect(self, page: PageSession, is_closed: bool) -> None:
        """Count the end of a WebSocket. A page that was closed and has no other WebSocket is forgotten."""
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


def add_page_socket(
    app: fastapi.FastAPI,
    pages: Pages,
    views: Callable[[PageSession], Sequence[PolledRenderer]],
    on_activity: Callable[[], None],
) -> None:
    """Serve the WebSocket. `on_activity` is called when the user uses a page."""

    @app.get(ROUTE, status_code=204)
    async def answer() -> None:
        """Answer a page without a connection, which asks whether the app still knows its key (`page_socket.js`)."""

    @app.websocket(ROUTE)
    async def draw(socket: fastapi.WebSocket, session: str = "") -> None:
        await socket.accept()
        page = pages.connect(session)
        if page is None:
            await socket.close(UNKNOWN_PAGE)
            return
        code = 0
        try:
            code = await _Connection(socket, page, PageStream(views(page)), on_activity).run()
        finally:
            pages.disconnect(page, code in CLOSED)


@dataclass(frozen=True, slots=True)
class _Connection:
    """One page's WebSocket: sends frames and receives messages."""

    _socket: fastapi.WebSocket
    _page: PageSession
    _stream: PageStream
    _on_activity: Callable[[], None]
    _drawn: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> int:
        """Draw the page until its WebSocket is closed. Returns the closing code of RFC 6455."""
        drawing, listening = asyncio.create_task(self._draw()), asyncio.create_task(self._listen())
        try:
            await asyncio.wait([drawing, listening], return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                return listening.result()
            log.error("A page could not be drawn", exc_info=drawing.exception())
            await self._socket.close(FAILED)
            return FAILED
        finally:
            drawing.cancel()
            listening.cancel()
            await asyncio.wait([drawing, listening])

    async def _draw(self) -> None:
        async for frame in self._stream.frames():
            self._drawn.clear()
            await self._socket.send_text(json.dumps(frame))
            await self._drawn.wait()

    async def _listen(self) -> int:
        while True:
            try:
                message = json.loads(await self._socket.receive_text())
            except fastapi.WebSocketDisconnect as end:
                return end.code
            except (ValueError, KeyError):  # invalid JSON, or bytes
                await self._socket.close(NOT_UNDERSTOOD)
                return NOT_UNDERSTOOD
            match message:
                case {"drawn": True}:
                    self._drawn.set()
                    continue
                case {"active": True}:
                    self._on_activity()
                # Texts are stored on a thread, because writing may have to wait for the database. The next
                # message is read afterwards.
                case {"typed": str(text), "left": str(chat), "opened": int(opened)}:
                    await asyncio.to_thread(self._page.left, chat, text, opened)
                case {"typed": str(text)}:
                    await asyncio.to_thread(self._page.typed, text)
            self._stream.wake()
