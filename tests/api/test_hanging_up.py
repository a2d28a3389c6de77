"""Clients that leave: their requests end within a step, and nothing of them stays."""

import asyncio
import random
import threading
from pathlib import Path

import httpx
import openai
import pytest

from app.api.application import RunningApi
from app.engine import Engine
from tests.api.conftest import KEY
from tests.support.waiting import until

LONG = {
    "model": "demo",
    "messages": [{"role": "user", "content": "Count from 1 to 500: 1 2 3 4 5 6 7 8 9 10 11 12"}],
    "max_tokens": 900,
    "temperature": 0,
}
PLAIN = {"foresight": {"decoder": "plain"}}
"""So that it takes seconds."""
SHORT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}
HEADERS = {"Authorization": f"Bearer {KEY}"}


def wait_until_idle(engine: Engine) -> None:
    until(lambda: engine.status().phase != "busy")


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_ends_with_its_client(
    server: RunningApi, client: openai.OpenAI, engine: Engine, stream: bool
) -> None:
    client.chat.completions.create(**SHORT)  # type: ignore[call-overload]
    if stream:
        with client.chat.completions.create(**LONG, extra_body=PLAIN, stream=True) as chunks:  # type: ignore[call-overload]
            for _, _ in zip(range(3), chunks, strict=False):
                assert engine.status().phase == "busy"
    else:
        with pytest.raises(httpx.TimeoutException):
            httpx.post(f"{server.url}/chat/completions", json=LONG | PLAIN, headers=HEADERS, timeout=0.5)
    wait_until_idle(engine)
    assert client.chat.completions.create(**SHORT).choices[0].message.content  # type: ignore[call-overload]


def test_one_that_waits_for_its_turn_never_begins(
    server: RunningApi, client: openai.OpenAI, engine: Engine
) -> None:
    with client.chat.completions.create(**LONG, extra_body=PLAIN, stream=True) as chunks:  # type: ignore[call-overload]
        next(iter(chunks))
        with pytest.raises(httpx.TimeoutException):
            httpx.post(f"{server.url}/chat/completions", json=LONG | PLAIN, headers=HEADERS, timeout=0.3)
    wait_until_idle(engine)


def test_many_clients_that_leave_at_random_leave_nothing(server: RunningApi, client: openai.OpenAI) -> None:
    expected = client.chat.completions.create(**SHORT).choices[0].message.content  # type: ignore[call-overload]
    asyncio.run(_crowd(server, expected, 48))  # the web server keeps as many idle threads as were ever needed
    before = _resources()
    asyncio.run(_crowd(server, expected, 24))
    until(lambda: _is_no_more(_resources(), before))


def test_clients_that_all_leave_at_once_take_no_threads(server: RunningApi, engine: Engine) -> None:
    before = threading.active_count()
    asyncio.run(_leaving_at_once(server, 16))
    wait_until_idle(engine)
    until(lambda: threading.active_count() <= before)


async def _leaving_at_once(server: RunningApi, count: int) -> None:
    async with httpx.AsyncClient(headers=HEADERS, timeout=0.5) as http:
        asked = [http.post(f"{server.url}/chat/completions", json=LONG | PLAIN) for _ in range(count)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(answer, httpx.TimeoutException) for answer in answers)


async def _crowd(server: RunningApi, expected: str, count: int) -> None:
    async with httpx.AsyncClient(headers=HEADERS, timeout=300) as http:
        answers = await asyncio.gather(*(_one(http, server, random.Random(seed)) for seed in range(count)))
    assert {answer for answer in answers if answer is not None} <= {expected}


async def _one(http: httpx.AsyncClient, server: RunningApi, chance: random.Random) -> str | None:
    url = f"{server.url}/chat/completions"
    if chance.random() < 0.6:
        async with http.stream("POST", url, json={**LONG, "stream": True}) as answer:
            lines = answer.aiter_lines()
            for _ in range(chance.randrange(4)):
                await anext(lines)
        return None
    answer = await http.post(url, json=SHORT)
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


def _is_no_more(now: tuple[int, int], before: tuple[int, int]) -> bool:
    return all(count <= least for count, least in zip(now, before, strict=True))


def _resources() -> tuple[int, int]:
    """Threads, and open files where the system tells."""
    files = Path("/proc/self/fd")
    return threading.active_count(), len(list(files.iterdir())) if files.exists() else 0
