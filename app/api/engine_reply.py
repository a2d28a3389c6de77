"""One reply of the engine, followed on the event loop: its events, its end, and its hang-up."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.requests import Request as HttpRequest

from app.api.errors import ApiError
from app.api.services import ApiServices
from app.logits_settings import TokenLogprobs
from app.messages import Event, Failed, Finished, Loading, Piece, Request, Statistics

T = TypeVar("T")
CLIENT_CLOSED = 499


class EventQueue:
    """Hands events from the engine's thread to the event loop that made it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._stop = threading.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether the reply is to end."""
        return self._stop.is_set()

    def stop(self) -> None:
        """End the reply after its current step."""
        self._stop.set()

    def append(self, event: Event) -> None:
        """Take an event; called by the engine's thread."""
        self._events.append(event)
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:  # the server has ended, and its loop with it
            self.stop()

    async def events(self) -> AsyncIterator[list[Event]]:
        """All events, as many at once as have come; the last one is Finished or Failed."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            taken = [self._events.popleft() for _ in range(len(self._events))]
            if taken:
                yield taken
                if isinstance(taken[-1], Finished | Failed):
                    return


@dataclass(slots=True)
class ReplyCount:
    """A reply's numbers so far. Drafted tokens are those of the steps' draft trees."""

    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    statistics: Statistics = field(default_factory=Statistics)
    logprobs: list[TokenLogprobs] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        """Count a piece."""
        self.tokens += len(piece.token_ids)
        self.drafted += max(0, len(piece.trace.tokens) - 1)
        self.accepted += sum(origin != "model" for origin in piece.origins)
        self.statistics = piece.statistics
        self.logprobs += piece.logprobs

    @property
    def rejected(self) -> int:
        """Drafted tokens that the model did not say."""
        return max(0, self.drafted - self.accepted)


class EngineReply:
    """A reply that has begun: the request could be done."""

    def __init__(self, first: Sequence[Event], rest: AsyncIterator[list[Event]], grammar_param: str) -> None:
        self.count = ReplyCount()
        self._grammar_param = grammar_param
        self._first = first
        self._rest = rest
        self._finished: Finished | None = None

    @property
    def finished(self) -> Finished:
        """How it ended."""
        if self._finished is None:
            raise RuntimeError("the reply has not ended")
        return self._finished

    @property
    def finish_reason(self) -> str:
        """As OpenAI names it."""
        return "length" if self.finished.reason in ("max_tokens", "context") else "stop"

    async def pieces(self) -> AsyncIterator[Piece]:
        """What is written. Raises ApiError where the engine fails."""
        for event in self._first:
            if piece := self._take(event):
                yield piece
        if self._finished is None:
            async for events in self._rest:
                for event in events:
                    if piece := self._take(event):
                        yield piece

    def _take(self, event: Event) -> Piece | None:
        match event:
            case Piece():
                self.count.add(event)
                return event
            case Finished():
                self._finished = event
                self.count.statistics = event.statistics
            case Failed():
                raise _failure(event, self._grammar_param)
        return None


@asynccontextmanager
async def engine_reply(
    services: ApiServices, request: Request, grammar_param: str = "response_format"
) -> AsyncIterator[EngineReply]:
    """The reply to a request, in its turn. Leaving ends it within a step. Raises ApiError before it begins.

    A grammar that cannot be used is told as the parameter `grammar_param`."""
    async with services.turns:
        queue = EventQueue()
        services.engine.submit(request, queue)
        try:
            events = queue.events()
            yield EngineReply(await _beginning(events, grammar_param), events, grammar_param)
        finally:
            queue.stop()


async def _beginning(events: AsyncIterator[list[Event]], grammar_param: str) -> Sequence[Event]:
    """The first events by which it is known that the request can be done."""
    async for batch in events:
        match [event for event in batch if not isinstance(event, Loading)]:
            case [Failed() as failed, *_]:
                raise _failure(failed, grammar_param)
            case [_, *_] as begun:
                return begun
    raise RuntimeError("the engine's events ended before the reply")


def _failure(failed: Failed, grammar_param: str) -> ApiError:
    param = grammar_param if failed.refused == "grammar" else None
    code = "context_length_exceeded" if failed.refused == "prompt" else None
    return ApiError(failed.sentence, param, 400 if failed.refused else 500, code)


async def unless_closed(http: HttpRequest, answer: Awaitable[T]) -> T:
    """The answer. A client that hangs up meanwhile cancels it: then this raises ApiError, which nobody reads."""
    working, closed = asyncio.ensure_future(answer), asyncio.ensure_future(_closed(http))
    try:
        await asyncio.wait({working, closed}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ApiError("The client has closed the connection.", status=CLIENT_CLOSED)
    finally:
        for task in (working, closed):
            task.cancel()
        await asyncio.gather(working, closed, return_exceptions=True)


async def _closed(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
