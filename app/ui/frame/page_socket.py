"""The WebSocket that draws a page: one for each page, in place of Gradio's events.

A browser opens at most six HTTP connections to an address for all its tabs together, and Gradio's queue runs forty
events at once; endless events would fill both. WebSockets are counted separately, and end at the same moment as
their page: a page that is closed sends a close frame; if its process dies, the system closes the connection; if
the browser does not answer pings, the server closes it.

    page -> server    {"drawn": true}     the page shows the last frame
                      {"active": true}    the person uses the page
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
"""The code with which the server closes the WebSocket of an unknown page, which must be reloaded."""
NOT_UNDERSTOOD = 1007
FAILED = 1011
"""The code with which the server closes the WebSocket of a page that it cannot draw. The page then reconnects."""
CLOSED = (1000, 1001)
"""The codes when a page is closed, and when its tab opens another address."""
log = logging.getLogger(__name__)


def add_page_socket(
    app: fastapi.FastAPI,
    pages: Pages,
    views: Callable[[PageSession], Sequence[PolledRenderer]],
    on_activity: Callable[[], None],
) -> None:
    """Serve the WebSocket. `on_activity` is called when somebody uses a page."""

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
    """One page's WebSocket: sends frames and receives messages."""

    def __init__(
        self, socket: fastapi.WebSocket, stream: PageStream, on_activity: Callable[[], None]
    ) -> None:
        self._socket = socket
        self._stream = stream
        self._on_activity = on_activity
        self._drawn = asyncio.Event()

    async def run(self) -> int:
        """Draw the page until its WebSocket is closed. Returns the closing code of RFC 6455."""
        drawing, listening = asyncio.create_task(self._draw()), asyncio.create_task(self._listen())
        try:
            await asyncio.wait([drawing, listening], return_when=asyncio.FIRST_COMPLETED)
            return listening.result() if listening.done() else await self._fail(drawing)
        finally:
            drawing.cancel()
            listening.cancel()
            await asyncio.wait([drawing, listening])

    async def _fail(self, drawing: asyncio.Task[None]) -> int:
        """Log the error and close the WebSocket of a page that can no longer be drawn.

        Returns the closing code."""
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
            except (ValueError, KeyError):  # invalid JSON, or bytes
                await self._socket.close(NOT_UNDERSTOOD)
                return NOT_UNDERSTOOD
            if message == {"drawn": True}:
                self._drawn.set()
            elif message == {"active": True}:
                self._on_activity()
                self._stream.wake()
