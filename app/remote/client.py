"""Requests the list of a server's models, or a reply as a stream of chunks, with the `openai` client.

Only the request, the key of this server and the app's version are sent.
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
from app.values.messages import Request
from app.values.server import Limits, Server

SENT = (
    "host", "connection", "user-agent", "authorization", "accept", "accept-encoding", "content-type",
    "content-length",
)  # fmt: skip
"""The headers that are sent. Other headers of the client (facts about this machine, OPENAI_CUSTOM_HEADERS) are
removed."""
LIBRARY = openai.DefaultAsyncHttpxClient.__bases__[0].__module__.partition(".")[0]
"""The HTTP library that the client uses: "httpx" or "httpx2"."""
LONGEST_LIST, MOST_MODELS, LONGEST_NAME = 5_000_000, 2_000, 300
"""Limits of a list of models: its bytes, its models, and the characters of a name."""
LONGEST_EVENT = 8_000_000
"""Maximum number of bytes of one chunk of a reply. A server may send the whole reply as one chunk."""
CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}
"""Asks vLLM and SGLang to continue the last message. Other servers do so without being asked, or cannot."""


class NotAnApi(Exception):
    """The server's answer is not one of OpenAI's API; it may be a web page, for example."""


async def list_models(server: Server, limits: Limits) -> tuple[str, ...]:
    """Return the names of a server's models. Raises NotAnApi, AnswerRefused, and the client's errors."""
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
    """Return whether this is a usable name of a model: printable, on one line, and not too long."""
    return isinstance(name, str) and bool(name) and plain_words(name, LONGEST_NAME) == name


async def chunks(server: Server, request: Request, limits: Limits) -> AsyncIterator[Any]:
    """Yield the chunks of a reply as they arrive; a chunk may be any JSON.

    Raises NotAnApi, AnswerRefused, and the client's errors."""
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
    """Return the request in OpenAI's format, with the settings that every server knows."""
    options, sampling = request.options, request.options.sampling
    chat = request.prompt if isinstance(request.prompt, tuple) else ()
    messages = [{"role": one.role, "content": one.content} for one in chat]
    asked: dict[str, Any] = {
        "model": request.model.name,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": sampling.temperature,
        "seed": sampling.seed,
    }
    if options.max_new_tokens:
        asked["max_tokens"] = options.max_new_tokens
    if sampling.top_p != 1:
        asked["top_p"] = sampling.top_p
    if options.stop:
        asked["stop"] = list(options.stop)
    grammar = request.logits.grammar
    if grammar and grammar.kind == "json_schema":  # OpenAI's API has no other kinds
        schema = json.loads(grammar.source)
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        asked["response_format"] = {"type": "json_object"} if schema == {"type": "object"} else form
    if continues(request):
        asked |= CONTINUE
    return asked


def continues(request: Request) -> bool:
    """Return whether the last message is the beginning of the reply."""
    return isinstance(request.prompt, tuple) and request.prompt[-1].role == "assistant"


@asynccontextmanager
async def _client(server: Server, connect: float, limit: AnswerLimit) -> AsyncIterator[openai.AsyncOpenAI]:
    async def remove_headers(request: Any) -> None:
        for name in [name for name in request.headers if name.lower() not in SENT]:
            del request.headers[name]
        if not server.key:
            del request.headers["authorization"]

    with network_settings(uses_proxies=not server.is_here):
        transport = openai.DefaultAsyncHttpxClient(
            follow_redirects=False,  # a redirect could lead to a host that the user did not choose
            verify=certificates(LIBRARY),
            trust_env=not server.is_here,  # a server on this machine is not reached through a proxy
            event_hooks={"request": [remove_headers, limit.announce], "response": [limit.begin]},
        )
    async with openai.AsyncOpenAI(
        base_url=server.address,
        api_key=server.key or "none",  # without a key the client would use the key in the environment
        organization="",
        project="",
        max_retries=0,
        timeout=openai.Timeout(None, connect=connect),  # callers limit the time of the whole exchange
        default_headers={"User-Agent": f"Foresight/{__version__}", **UNCOMPRESSED},
        http_client=transport,
    ) as client:
        yield client
