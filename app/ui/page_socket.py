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
from collections.abc import Callable, Sequence
from typing import Any

import fastapi

from app.ui.page_sessions import Pages, PageSession
from app.ui.page_stream import PageStream, View

ROUTE = "/foresight/page"
UNKNOWN_PAGE = 4404
"""The code with which the server closes the WebSocket of a page that it does not know: it must be reloaded."""
NOT_UNDERSTOOD = 1007
CLOSED = (1000, 1001)
"""Codes of a page that is closed, and of a tab that goes elsewhere."""


def add_page_socket(
    app: fastapi.FastAPI, pages: Pages, views: Callable[[PageSession], Sequence[View[Any]]]
) -> None:
    """Serve it."""

    @app.websocket(ROUTE)
    async def draw(socket: fastapi.WebSocket, session: str = "") -> None:
        await socket.accept()
        page = pages.connect(session)
        if page is None:
            await socket.close(UNKNOWN_PAGE)
            return
        code = 0
        try:
            code = await _Connection(socket, PageStream(views(page))).run()
        finally:
            pages.disconnect(page, code in CLOSED)


class _Connection:
    """One page's WebSocket."""

    def __init__(self, socket: fastapi.WebSocket, stream: PageStream) -> None:
        self._socket = socket
        self._stream = stream
        self._drawn = asyncio.Event()

    async def run(self) -> int:
        """Draw the page until its WebSocket is closed; why it was, as the code of RFC 6455."""
        drawing = asyncio.create_task(self._draw())
        try:
            return await self._listen()
        except fastapi.WebSocketDisconnect as end:
            return end.code
        finally:
            drawing.cancel()
            await asyncio.wait([drawing])

    async def _draw(self) -> None:
        async for frame in self._stream.frames():
            self._drawn.clear()
            await self._socket.send_text(json.dumps(frame))
            await self._drawn.wait()

    async def _listen(self) -> int:
        while True:
            try:
                said = json.loads(await self._socket.receive_text())
            except (ValueError, KeyError):  # no JSON, or bytes
                await self._socket.close(NOT_UNDERSTOOD)
                return NOT_UNDERSTOOD
            if said == {"drawn": True}:
                self._drawn.set()
            elif said == {"active": True}:
                self._stream.wake()
