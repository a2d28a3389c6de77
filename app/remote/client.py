"""Asks a server by the `openai` client: which models it has, and for a reply as a stream of chunks.

Nothing goes out but the request and the key of this server: what the client would add by itself (keys and accounts
from the environment, facts about this machine) is left out.
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai

from app import __version__
from app.environment import network_settings
from app.logits_settings import Grammar
from app.messages import Message, Options, Request
from app.server_messages import Limits, Server

SENT = (
    "host", "connection", "user-agent", "authorization", "accept", "accept-encoding", "content-type",
    "content-length",
)  # fmt: skip
"""The headers of a request. The client adds others: facts about this machine, OPENAI_CUSTOM_HEADERS."""
CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}
"""How vLLM and SGLang are asked to go on with the last message; others do it by themselves, or cannot."""


class NotAnApi(Exception):
    """The server answered with something else than OpenAI's API does, such as a page of a web site."""


async def list_models(server: Server, limits: Limits) -> tuple[str, ...]:
    """The names of the models that a server has. Raises NotAnApi."""
    async with _client(server, limits.connect, limits.listing) as client:
        answer: Any = await client.get("/models", cast_to=object)
    listed = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        raise NotAnApi
    return tuple(dict.fromkeys(str(one["id"]) for one in listed if isinstance(one, dict) and one.get("id")))


async def chunks(server: Server, request: Request, limits: Limits) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a reply as they come. Raises NotAnApi."""
    async with _client(server, limits.connect, limits.silence) as client:
        stream = await client.chat.completions.create(**body(request))
        if not stream.response.headers.get("content-type", "").startswith("text/event-stream"):
            raise NotAnApi
        async for chunk in stream:
            yield chunk.to_dict()


def body(request: Request) -> dict[str, Any]:
    """The request in OpenAI's form, with the settings that every server knows."""
    options = request.options
    messages = [
        {"role": one.role, "content": one.content} for one in request.prompt if isinstance(one, Message)
    ]
    asked = {
        "model": request.model.name,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        **_sampling(options),
    }
    if grammar := request.logits.grammar:
        asked["response_format"] = _response_format(grammar)
    if continues(request):
        asked["extra_body"] = CONTINUE
    return asked


def continues(request: Request) -> bool:
    """Whether the last message is the beginning of the reply."""
    last = request.prompt[-1]
    return isinstance(last, Message) and last.role == "assistant"


def _sampling(options: Options) -> dict[str, Any]:
    sampling = options.sampling
    asked: dict[str, Any] = {
        "temperature": sampling.temperature,
        "seed": sampling.seed,
        "max_tokens": options.max_new_tokens,
    }
    if sampling.top_p != 1:
        asked["top_p"] = sampling.top_p
    if options.stop:
        asked["stop"] = list(options.stop)
    return asked


def _response_format(grammar: Grammar) -> dict[str, Any]:
    schema = json.loads(grammar.source)
    if schema == {"type": "object"}:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


@asynccontextmanager
async def _client(server: Server, connect: float, read: float) -> AsyncIterator[openai.AsyncOpenAI]:
    # The log of contacts (app/network_log.py) takes a connection for the host that its thread looked up last, and
    # asyncio looks names up in another thread.
    sys.audit("socket.getaddrinfo", server.hostname, None, 0, 0, 0)

    async def add_nothing(request: Any) -> None:
        for name in [name for name in request.headers if name.lower() not in SENT]:
            del request.headers[name]
        if not server.key:
            del request.headers["authorization"]

    with network_settings():
        transport = openai.DefaultAsyncHttpxClient(
            follow_redirects=False,  # to a host that nobody chose
            trust_env=not server.is_here,  # a proxy is not asked for what runs on this machine
            event_hooks={"request": [add_nothing]},
        )
    async with openai.AsyncOpenAI(
        base_url=server.address,
        api_key=server.key or "none",  # without one the client takes that of the environment
        organization="",
        project="",
        max_retries=0,
        timeout=openai.Timeout(read, connect=connect),
        default_headers={"User-Agent": f"Foresight/{__version__}"},
        http_client=transport,
    ) as client:
        yield client
