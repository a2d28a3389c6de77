"""uvicorn's WebSocket protocol, which can end while a client is hanging up."""

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn (0.54) says goodbye to clients that are hanging up, too, which raises InvalidState."""

    def shutdown(self) -> None:
        """Close the connection; say goodbye where it is open."""
        if self.handshake_complete and self.conn.state is not State.OPEN:
            self.stop_keepalive()
            self.transport.close()
        else:
            super().shutdown()
