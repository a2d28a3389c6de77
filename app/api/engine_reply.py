"""Reads a reply of the engine on the event loop, and stops the reply if the client disconnects."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from starlette.requests import Request as HttpRequest

from app.api.errors import CONTEXT_EXCEEDED, ApiError
from app.api.services import ApiServices
from app.conversation.reply import ReplySoFar
from app.engine.session.jobs import TokenisedRequest
from app.errors import AppError, GrammarRefused
from app.values.logits import TokenLogprobs
from app.values.messages import Event, Failed, Finished, Loading, Piece, Request

T = TypeVar("T")
CLIENT_CLOSED = 499
PAUSE_SECONDS = 0.03
"""The pause between two batches of events. The steps that a fast model takes in this time are sent together,
because waking the event loop at every step slows the engine (by 3% at 120 tokens a second on two cores)."""


class EventQueue:
    """Hands events from the engine's thread to the event loop on which the queue was made."""

    def __init__(self, pause: float = PAUSE_SECONDS) -> None:
        self._pause = pause
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._is_waiting = True
        self.is_stopping = False
        """Whether the engine is to end the reply after its current step."""

    def append(self, event: Event) -> None:
        """Add an event from the engine's thread. Wakes the event loop if a reader waits or the reply has ended."""
        self._events.append(event)
        if not self._is_waiting and not isinstance(event, Finished | Failed):
            return
        self._is_waiting = False
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:  # the server has ended, and its loop with it
            self.is_stopping = True

    async def events(self) -> AsyncIterator[list[Event]]:
        """Yield batches of all events that have arrived. The last event is Finished or Failed.

        The first piece of text and the last event are never delayed by the pause."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            taken = [self._events.popleft() for _ in range(len(self._events))]
            if taken:
                yield taken
                if isinstance(taken[-1], Finished | Failed):
                    return
            has_text = any(isinstance(event, Piece) for event in taken)
            self._loop.call_later(self._pause if has_text else 0, self._look)

    def _look(self) -> None:
        """Wake the reader of events if any have arrived during the pause; if not, let the next event wake it."""
        self._is_waiting = True  # set before the check, so that no event is missed
        if self._events:
            self._is_waiting = False
            self._arrived.set()


class EngineReply:
    """A reply that has begun. Its request has been accepted."""

    def __init__(self, first: Sequence[Event], rest: AsyncIterator[list[Event]]) -> None:
        self.count = ReplySoFar()
        self._first = first
        self._rest = rest
        self._end: Finished | Failed | None = None

    @property
    def finished(self) -> Finished:
        if not isinstance(self._end, Finished):
            raise RuntimeError("the reply has not ended")
        return self._end

    @property
    def finish_reason(self) -> str:
        """Why the reply ended, in OpenAI's words."""
        return "length" if self.finished.reason in ("max_tokens", "context") else "stop"

    async def texts(self) -> AsyncIterator[tuple[str, tuple[TokenLogprobs, ...]]]:
        """Yield pieces of text with their log probabilities. Steps that arrived together are joined to one piece.

        Raises an AppError if the reply fails."""
        yield self._take(self._first)
        while self._end is None:
            yield self._take(await anext(self._rest))
        if isinstance(self._end, Failed):
            raise _failure(self._end)

    def _take(self, events: Sequence[Event]) -> tuple[str, tuple[TokenLogprobs, ...]]:
        before = len(self.count.logprobs)
        self.count.take(events)
        self._end = next((event for event in events if isinstance(event, Finished | Failed)), None)
        text = "".join(event.text for event in events if isinstance(event, Piece))
        return text, tuple(self.count.logprobs[before:])


async def tokenised(services: ApiServices, requests: Sequence[Request]) -> list[TokenisedRequest]:
    """Tokenise all requests before any of them waits for its turn. Raises an AppError if a request is refused."""
    found: list[TokenisedRequest] = []
    for request in requests:
        if found and found[-1].request.prompt is request.prompt:  # another choice of the same prompt
            found.append(replace(found[-1], request=request))
        else:
            found.append(await asyncio.wrap_future(services.engine.tokenise(request)))
    return found


@asynccontextmanager
async def engine_reply(services: ApiServices, request: TokenisedRequest) -> AsyncIterator[EngineReply]:
    """Wait for the request's turn, then yield its reply. When the context is left, the reply stops within a step.

    Raises an AppError if the request is refused or the reply fails before its first event."""
    async with services.turns:
        queue = EventQueue()
        services.engine.submit(request, queue)
        try:
            events = queue.events()
            yield EngineReply(await _beginning(events), events)
        finally:
            queue.is_stopping = True


async def _beginning(events: AsyncIterator[list[Event]]) -> Sequence[Event]:
    """Wait for the first events after loading, which show that the request is accepted, and return these events.

    Raises an AppError if the reply failed."""
    async for batch in events:
        match [event for event in batch if not isinstance(event, Loading)]:
            case [Failed() as failed, *_]:
                raise _failure(failed)
            case [_, *_] as begun:
                return begun
    raise RuntimeError("the engine's events ended before the reply")


def _failure(failed: Failed) -> AppError:
    if failed.refused == "grammar":
        return GrammarRefused(failed.sentence)
    code = CONTEXT_EXCEEDED if failed.refused == "prompt" else None
    return ApiError(failed.sentence, None, 400 if failed.refused else 500, code)


async def unless_closed(http: HttpRequest, answer: Awaitable[T]) -> T:
    """Wait for the answer. If the client disconnects first, cancels the answer and raises ApiError."""
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
