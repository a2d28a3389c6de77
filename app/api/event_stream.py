"""Server-sent events: frames of JSON, and an error as a last frame."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

from app.api.engine_reply import unless_closed
from app.api.errors import ApiError, error_body
from app.errors import AppError

DONE = b"data: [DONE]\n\n"
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
"""For the schema of routes whose answers may be streams."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def frame(body: dict[str, Any], event: str = "") -> bytes:
    """One event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(body, ensure_ascii=False, separators=(',', ':'))}\n\n".encode(
        errors="replace"
    )


def error_frame(error: AppError) -> bytes:
    """An error behind what was sent; OpenAI's clients raise it."""
    return frame(error.body if isinstance(error, ApiError) else error_body(str(error), 500))


async def begun_stream(http: Request, frames: AsyncGenerator[bytes, None]) -> StreamingResponse:
    """The response, once the first frame is there. What is refused before is answered with its own status."""
    first = await unless_closed(http, anext(frames))
    return StreamingResponse(_from(first, frames), media_type="text/event-stream", headers=HEADERS)


async def _from(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield first
        try:
            async for one in rest:
                yield one
        except AppError as error:
            yield error_frame(error)
