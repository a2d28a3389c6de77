"""The server can end while a page is hanging up."""

import asyncio
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.frames import Close, Frame, Opcode

from app.web.websocket_protocol import WebSocketProtocol

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Wire(asyncio.Transport):
    """Keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.is_closed = b"", False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        del name
        return default

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


async def accepting(_scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


@pytest.mark.parametrize("is_hanging_up", [False, True])
def test_a_connection_is_closed_whether_or_not_its_page_is_hanging_up(is_hanging_up: bool) -> None:
    async def run() -> Wire:
        config = uvicorn.Config(cast(Any, accepting), ws=WebSocketProtocol, log_config=None)
        config.load()
        protocol, wire = WebSocketProtocol(config, ServerState(), {}), Wire()
        protocol.connection_made(wire)
        protocol.data_received(HANDSHAKE)
        await asyncio.sleep(0.05)
        assert b"101 Switching" in wire.written
        if is_hanging_up:
            goodbye = Frame(Opcode.CLOSE, Close(1001, "").serialize()).serialize(mask=True)
            protocol.conn.receive_data(goodbye)
        protocol.shutdown()
        await asyncio.sleep(0.05)
        return wire

    assert asyncio.run(run()).is_closed
