"""The WebSocket that draws a page: one for each page, in place of Gradio's events.

A browser opens six HTTP connections to an address for all its tabs together, and Gradio's queue runs forty events:
endless events fill both. WebSockets are counted apart, and end in the same moment as their page: when it is closed,
it says so; when its process dies, the system closes the connection; when nobody answers pings, the server does.

    page -> server    {"drawn": true}     the last frame is on the page
                      {"active": true}    the person does something
    server -> page    {part: value, ...}  see page_stream.py
"""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence

import fastapi

from app.ui.frame.page_sessions import Pages, PageSession
from app.ui.frame.page_stream import PageStream, PolledRenderer

ROUTE = "/foresight/page"
UNKNOWN_PAGE = 4404
"""The code with which the server closes the WebSocket of a page that it does not know: it must be reloaded."""
NOT_UNDERSTOOD = 1007
FAILED = 1011
"""The code with which the server closes the WebSocket of a page that it cannot draw: the page connects again."""
CLOSED = (1000, 1001)
"""Codes of a page that is closed, and of a tab that goes elsewhere."""
log = logging.getLogger(__name__)


def add_page_socket(
    app: fastapi.FastAPI,
    pages: Pages,
    views: Callable[[PageSession], Sequence[PolledRenderer]],
    on_activity: Callable[[], None],
) -> None:
    """Serve the WebSocket. `on_activity` is called when somebody does something on a page."""

    @app.websocket(ROUTE)
    async def draw(socket: fastapi.WebSocket, session: str = "") -> None:
        await socket.accept()
        page = pages.connect(session)
        if page is None:
            await socket.close(UNKNOWN_PAGE)
            return
        code = 0
        try:
            code = await _Connection(socket, PageStream(views(page)), on_activity).run()
        finally:
            pages.disconnect(page, code in CLOSED)


class _Connection:
    """One page's WebSocket."""

    def __init__(
        self, socket: fastapi.WebSocket, stream: PageStream, on_activity: Callable[[], None]
    ) -> None:
        self._socket = socket
        self._stream = stream
        self._on_activity = on_activity
        self._drawn = asyncio.Event()

    async def run(self) -> int:
        """Draw the page until its WebSocket is closed. The result is the closing code of RFC 6455."""
        drawing, listening = asyncio.create_task(self._draw()), asyncio.create_task(self._listen())
        try:
            await asyncio.wait([drawing, listening], return_when=asyncio.FIRST_COMPLETED)
            return listening.result() if listening.done() else await self._fail(drawing)
        finally:
            drawing.cancel()
            listening.cancel()
            await asyncio.wait([drawing, listening])

    async def _fail(self, drawing: asyncio.Task[None]) -> int:
        """Close the WebSocket of a page that can no longer be drawn."""
        log.error("A page could not be drawn", exc_info=drawing.exception())
        await self._socket.close(FAILED)
        return FAILED

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
            except (ValueError, KeyError):  # no JSON, or bytes
                await self._socket.close(NOT_UNDERSTOOD)
                return NOT_UNDERSTOOD
            if message == {"drawn": True}:
                self._drawn.set()
            elif message == {"active": True}:
                self._on_activity()
                self._stream.wake()
