"""Who runs the lanes of a race: the engine of this machine, or a server."""

from collections.abc import Callable
from typing import Protocol

from app.conversation.engine_protocol import ReplyEngine
from app.conversation.race.decoder_comparison import run_to_end
from app.conversation.reply import Reply
from app.values.messages import Failed, ModelInfo, Request
from app.values.server import remote_info

AskServer = Callable[[Request, Reply], None]
"""Has the server of the request's model write a reply; returns at once."""
SILENCE = 120.0
"""Seconds without a piece after which the server of a race is given up."""


class LaneRunner(Protocol):
    """Has the replies of lanes written."""

    def run(self, request: Request, reply: Reply) -> ModelInfo:
        """Waits for the end of a reply. Returns the model that wrote it.

        Raises ReplyFailed where the race cannot go on without it."""


class EngineRunner:
    """Runs the lanes of this machine. One that fails ends the race."""

    def __init__(self, engine: ReplyEngine) -> None:
        self._engine = engine

    def run(self, request: Request, reply: Reply) -> ModelInfo:
        """Waits for the end of a reply. Returns the model that wrote it. Raises ReplyFailed."""
        return run_to_end(self._engine, request, reply).model


class ServerRunner:
    """Runs the remote lane. A server that has failed is not asked again: that lane has ended, the race goes on."""

    def __init__(self, ask: AskServer) -> None:
        self._ask = ask
        self._failed: list[Failed] = []

    def run(self, request: Request, reply: Reply) -> ModelInfo:
        """Waits for the end of a reply; where the server fails, that is its last event. Returns the model."""
        if self._failed:
            reply.append(self._failed[0])
        else:
            self._ask(request, reply)
        self._failed = [event for event in reply.events() if isinstance(event, Failed)]
        return remote_info(request.model)
