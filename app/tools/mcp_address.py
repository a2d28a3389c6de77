"""Connects to a tool server at an address by streamable HTTP, and refuses what is not from an MCP server."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client

from app import __version__
from app.errors import SessionLost, ToolFailed
from app.system.answer_limits import UNCOMPRESSED, AnswerLimit, certificates, plain_words
from app.system.environment import network_settings

LONGEST_KIND = 128
LONGEST_DELAY = 60
"""Maximum number of seconds before a stream of events is opened again."""


@asynccontextmanager
async def connected(server: dict[str, Any], longest: int) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to the address of a server. Its messages may have up to `longest` bytes."""
    limit = AnswerLimit(longest)
    url = httpx2.URL(server["address"])
    is_here = url.host in ("localhost", "::1") or url.host.startswith("127.")
    with network_settings(uses_proxies=not is_here):
        client = httpx2.AsyncClient(
            headers={"User-Agent": f"Foresight/{__version__}", **UNCOMPRESSED, **server["headers"]},
            timeout=httpx2.Timeout(30, read=300),
            verify=certificates("httpx2"),
            trust_env=not is_here,
            event_hooks={
                "request": [partial(_delay, count())],
                "response": [limit.begin, partial(_refuse, server["name"])],
            },
        )
    streams_of = partial(streamable_http_client, http_client=client, max_sse_event_size=longest)
    async with client, streams_of(server["address"]) as streams:
        yield streams


async def _delay(opened: Iterator[int], request: httpx2.Request) -> None:
    """Wait before a stream of events is opened, longer each time, because a server may close it again at once."""
    if request.method == "GET":
        await anyio.sleep(min(next(opened) ** 2 / 100, LONGEST_DELAY))


async def _refuse(name: str, response: httpx2.Response) -> None:
    """Raise ToolFailed for an answer that requires a login, or that is not from an MCP server.

    Raises SessionLost if the server has forgotten the session."""
    status, kind = response.status_code, response.headers.get("Content-Type", "").partition(";")[0].lower()
    if status in (401, 403):
        needs = "a login in the browser (OAuth), which Foresight does not offer" if (
            "resource_metadata" in response.headers.get("WWW-Authenticate", "")
        ) else "a login"  # fmt: skip
        raise ToolFailed(
            f"{name} asks for {needs} ({status}). If it has keys or tokens, add it as mcpServers JSON "
            'with "headers": {"Authorization": "Bearer …"}.'
        )
    is_post, asked = response.request.method == "POST", response.request.headers
    if is_post and "mcp-session-id" in asked and (
        status == 404 or (status == 400 and b"session" in (await response.aread()).lower())
    ):  # fmt: skip
        raise SessionLost(f"{name} has ended its session. Try again.")
    is_first = is_post and "mcp-protocol-version" not in asked
    if not is_first or kind in ("application/json", "text/event-stream"):
        return
    if status in (404, 405, 410):
        raise ToolFailed(
            f"{name} does not speak MCP at this address ({status}). Check the address: it often ends in /mcp. "
            "Addresses of the former transport, which often end in /sse, are not supported."
        )
    if response.is_success:
        raise ToolFailed(
            f"{name} answered with {plain_words(kind, LONGEST_KIND) or 'nothing'}, so it is not an MCP server."
        )
