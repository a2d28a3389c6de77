"""Events on their way from the engine's thread to a client: all of them, in order, several at once."""

import asyncio
import threading
from collections.abc import AsyncIterator
from random import Random
from time import sleep

import pytest

from app.api.engine_reply import EngineReply, EventQueue
from app.api.errors import ApiError
from app.values.messages import Event, Failed, Finished, ModelInfo, Piece, Prefilling, Statistics

LONG = 60.0
"""A pause that no test waits for."""
END = Finished("eos", Statistics(), ModelInfo("m", "", "", "", 0, 0, "float32", "cpu"), "auto")


def piece(text: str) -> Piece:
    return Piece(text, (1,), ("model",), Statistics())


async def soon(batches: AsyncIterator[list[Event]]) -> list[Event]:
    return await asyncio.wait_for(anext(batches), 300)


def test_pieces_of_a_pause_come_together_and_the_end_does_not_wait() -> None:
    async def batches() -> list[list[Event]]:
        queue = EventQueue(LONG)
        events = queue.events()
        queue.append(piece("a"))
        first = await soon(events)
        rest = asyncio.ensure_future(soon(events))
        for event in (piece("b"), piece("c"), END):
            await asyncio.sleep(0)
            queue.append(event)
        return [first, await rest]

    assert asyncio.run(batches()) == [[piece("a")], [piece("b"), piece("c"), END]]


def test_the_first_piece_does_not_wait() -> None:
    async def batches() -> list[list[Event]]:
        queue = EventQueue(LONG)
        events = queue.events()
        queue.append(Prefilling(0, 9))
        first = await soon(events)
        queue.append(piece("a"))
        return [first, await soon(events)]

    assert asyncio.run(batches()) == [[Prefilling(0, 9)], [piece("a")]]


@pytest.mark.parametrize("pause", [0.0, 0.002])
def test_no_event_is_lost_between_the_threads(pause: float) -> None:
    sent = [piece(str(number)) for number in range(400)]

    async def received() -> list[Event]:
        queue = EventQueue(pause)
        writer = threading.Thread(target=_write, args=(queue, [*sent, END]))
        writer.start()
        found = list[Event]()
        async with asyncio.timeout(300):
            async for events in queue.events():
                found += events
        writer.join()
        return found

    assert asyncio.run(received()) == [*sent, END]


def _write(queue: EventQueue, events: list[Event]) -> None:
    chance = Random(0)
    for event in events:
        queue.append(event)
        sleep(chance.choice((0, 0, 0.0005, 0.004)))


def test_what_was_written_before_a_failure_is_told_first() -> None:
    async def rest() -> AsyncIterator[list[Event]]:
        yield [piece("b"), piece("c"), Failed("The model failed.")]

    async def texts() -> list[str]:
        reply, found = EngineReply([piece("a")], rest()), list[str]()
        with pytest.raises(ApiError, match="The model failed"):
            async for text, _ in reply.texts():
                found.append(text)
        return found

    assert asyncio.run(texts()) == ["a", "bc"]
