"""Asks a server by the `openai` client: which models it has, and for a reply as a stream of chunks.

Nothing goes out but the request and the key of this server: what the client would add by itself (keys and accounts
from the environment, facts about this machine) is left out.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai

from app import __version__
from app.system.answer_limits import UNCOMPRESSED, AnswerLimit, AnswerRefused, certificates, plain_words
from app.system.environment import network_settings
from app.values.logits import Grammar
from app.values.messages import Message, Request
from app.values.server import Limits, Server

SENT = (
    "host", "connection", "user-agent", "authorization", "accept", "accept-encoding", "content-type",
    "content-length",
)  # fmt: skip
"""The headers of a request. The client adds others: facts about this machine, OPENAI_CUSTOM_HEADERS."""
LIBRARY = openai.DefaultAsyncHttpxClient.__bases__[0].__module__.partition(".")[0]
"""httpx, or httpx2: what the client is built with."""
LONGEST_LIST, MOST_MODELS, LONGEST_NAME = 5_000_000, 2_000, 300
"""Bytes of a list of models, how many may be in it, and characters of their names."""
LONGEST_EVENT = 8_000_000
"""Bytes of one chunk of a reply. A server may send the whole reply as one."""
CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}
"""How vLLM and SGLang are asked to go on with the last message; others do it by themselves, or cannot."""


class NotAnApi(Exception):
    """The server does not answer like OpenAI's API: it sent a web page, for example."""


async def list_models(server: Server, limits: Limits) -> tuple[str, ...]:
    """The names of the models that a server has. Raises NotAnApi, AnswerRefused."""
    limit = AnswerLimit(LONGEST_LIST)
    async with asyncio.timeout(limits.listing), _client(server, limits.connect, limit) as client:
        answer: Any = await client.get("/models", cast_to=object)
    listed = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        raise NotAnApi
    if len(listed) > MOST_MODELS:
        raise AnswerRefused(
            f"lists {len(listed):,} models, of which no more than {MOST_MODELS:,} can be shown"
        )
    return tuple(
        dict.fromkeys(one["id"] for one in listed if isinstance(one, dict) and _is_name(one.get("id")))
    )


def _is_name(name: object) -> bool:
    """Whether a model can be chosen and asked for by this name."""
    return isinstance(name, str) and bool(name) and plain_words(name, LONGEST_NAME) == name


async def chunks(server: Server, request: Request, limits: Limits) -> AsyncIterator[Any]:
    """The chunks of a reply as they come, which may be any JSON. Raises NotAnApi, AnswerRefused."""
    limit = AnswerLimit(LONGEST_EVENT)
    async with _client(server, limits.connect, limit) as client:
        stream = await client.post(
            "/chat/completions",
            body=body(request),
            cast_to=object,
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )
        if not stream.response.headers.get("content-type", "").startswith("text/event-stream"):
            raise NotAnApi
        async for chunk in stream:
            limit.restart()
            yield chunk


def body(request: Request) -> dict[str, Any]:
    """The request in OpenAI's form, with the settings that every server knows."""
    options, sampling = request.options, request.options.sampling
    messages = [
        {"role": one.role, "content": one.content} for one in request.prompt if isinstance(one, Message)
    ]
    asked: dict[str, Any] = {
        "model": request.model.name,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": sampling.temperature,
        "seed": sampling.seed,
        "max_tokens": options.max_new_tokens,
    }
    if sampling.top_p != 1:
        asked["top_p"] = sampling.top_p
    if options.stop:
        asked["stop"] = list(options.stop)
    if grammar := request.logits.grammar:
        asked["response_format"] = _response_format(grammar)
    if continues(request):
        asked |= CONTINUE
    return asked


def continues(request: Request) -> bool:
    """Whether the last message is the beginning of the reply."""
    last = request.prompt[-1]
    return isinstance(last, Message) and last.role == "assistant"


def _response_format(grammar: Grammar) -> dict[str, Any]:
    schema = json.loads(grammar.source)
    if schema == {"type": "object"}:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


@asynccontextmanager
async def _client(server: Server, connect: float, limit: AnswerLimit) -> AsyncIterator[openai.AsyncOpenAI]:
    async def add_nothing(request: Any) -> None:
        for name in [name for name in request.headers if name.lower() not in SENT]:
            del request.headers[name]
        if not server.key:
            del request.headers["authorization"]

    with network_settings(uses_proxies=not server.is_here):
        transport = openai.DefaultAsyncHttpxClient(
            follow_redirects=False,  # to a host that nobody chose
            verify=certificates(LIBRARY),
            trust_env=not server.is_here,  # a proxy is not asked for what runs on this machine
            event_hooks={"request": [add_nothing, limit.announce], "response": [limit.begin]},
        )
    async with openai.AsyncOpenAI(
        base_url=server.address,
        api_key=server.key or "none",  # without one the client takes that of the environment
        organization="",
        project="",
        max_retries=0,
        timeout=openai.Timeout(None, connect=connect),  # callers limit the time of the whole
        default_headers={"User-Agent": f"Foresight/{__version__}", **UNCOMPRESSED},
        http_client=transport,
    ) as client:
        yield client
