"""The body of a request: read beside the event loop, so that a large one holds up no other client.

Unknown fields are ignored, and its texts are Unicode.
"""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from app.values.text_normalisation import without_surrogates

SMALL = 2**14
"""Bytes that are read at once, on the event loop."""
MOST_VALUES = 1_000_000
"""Values of a body. JSON of many more takes seconds to read, and no other thread can work meanwhile."""
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?')
TOO_MANY_VALUES = f"The request's body has more than {MOST_VALUES:,} values: send less at once."
TOO_DEEP = "The request's body is nested too deeply."

T = TypeVar("T")
Some = Annotated[list[T], Field(fail_fast=True)]
"""A list of which the first wrong entry is told: a million wrong ones would take seconds to describe."""


class Body(BaseModel):
    """What every request's body is."""

    model_config = ConfigDict(extra="ignore")


class JsonRoute(APIRoute):
    """A route whose body is JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As FastAPI's, of a request that reads its body here."""
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return handler


class _JsonRequest(Request):
    async def json(self) -> Any:
        """The body's value. Raises HTTPException for too many values, JSONDecodeError for what is no JSON."""
        if not hasattr(self, "_json"):
            body = await self.body()
            self._json = _read(body) if len(body) < SMALL else await asyncio.to_thread(_read, body)
        return self._json


def _read(body: bytes) -> Any:
    if body.count(b",") > MOST_VALUES and STRING.sub(b"", body).count(b",") > MOST_VALUES:
        raise HTTPException(413, TOO_MANY_VALUES)
    try:
        return from_json(body)
    except ValueError as error:
        if "recursion limit" in str(error):
            raise HTTPException(400, TOO_DEEP) from error
    try:
        return _whole(json.loads(body))
    except RecursionError as error:
        raise HTTPException(400, TOO_DEEP) from error


def _whole(value: Any) -> Any:
    """JSON can spell half of a character, which no tokenizer reads."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(one) for key, one in value.items()}
    return value
