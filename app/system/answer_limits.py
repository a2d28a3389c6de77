"""Limits of what a server may answer, for every HTTP client of the app.

They are set where the HTTP library hands its bytes over, so that no caller can forget them. An answer is asked for
uncompressed, and a compressed one is refused: a kilobyte of it can be a gigabyte. Seconds are limited by
`asyncio.timeout` around the whole exchange, because the library's own timeouts begin anew with each byte.
"""

import sys
from collections.abc import AsyncIterator
from functools import cache
from importlib import import_module
from math import inf
from ssl import SSLContext
from typing import Any, TypeVar

from app.values.model import gigabytes

Kind = TypeVar("Kind")
UNCOMPRESSED = {"Accept-Encoding": "identity"}
"""The header of a request whose answer is counted."""
LONGEST_REFUSAL = 100_000
"""Bytes of a refusal or a redirect that are read at most."""


class AnswerRefused(Exception):
    """An answer that is not read to its end. The message says what the server did: "sent more than …"."""


class WrongType(TypeError):
    """A part of an answer has another type than the API says. The message names both: "choices is a dict"."""


def of_type(value: object, kind: type[Kind], name: str) -> Kind:
    """Returns a part of an answer. Raises WrongType."""
    if not isinstance(value, kind):
        raise WrongType(f"{name} is a {type(value).__name__}")
    return value


class AnswerLimit:
    """Lets a limited number of bytes through. Its methods are the event hooks of a client of httpx or httpx2."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._got = 0

    async def announce(self, request: Any) -> None:
        """Tell the log of contacts (network_log.py) the host: asyncio looks names up in another thread."""
        sys.audit("socket.getaddrinfo", request.url.host, None, 0, 0, 0)

    async def begin(self, response: Any) -> None:
        """Count this answer from now on. Raises AnswerRefused for a compressed one."""
        if response.headers.get("Content-Encoding", "").strip().lower() not in ("", "identity"):
            raise AnswerRefused("sent a compressed answer, which it was asked not to do")
        response.encoding = "utf-8"  # the codecs of some names return no text
        self.restart()
        stream_class = _counted_stream(type(response).__module__.partition(".")[0])
        response.stream = stream_class(response.stream, self, is_cut=not response.is_success)

    def restart(self) -> None:
        """Begin to count anew: what came so far was used."""
        self._got = 0

    def count(self, number: int) -> None:
        """Count these bytes. Raises AnswerRefused when there are too many."""
        self._got += number
        if self._got > self._most:
            raise AnswerRefused(f"sent more than {gigabytes(self._most)}, which no such answer takes")


def plain_words(text: str, most: int) -> str:
    """Return a server's words on one line, without control characters and not longer than a message can be."""
    return "".join(sign if sign.isprintable() else " " for sign in " ".join(text.split()))[:most]


@cache
def certificates(library: str) -> SSLContext:
    """Return the certificates that httpx or httpx2 trusts. Reading them takes longer than a request."""
    found: SSLContext = import_module(library).create_ssl_context()
    return found


class _Counted:
    """A body whose bytes are counted. One that is cut ends early: of a refusal the status says enough."""

    def __init__(self, stream: Any, limit: AnswerLimit, is_cut: bool) -> None:
        self._stream = stream
        self._limit = limit
        self._left = LONGEST_REFUSAL if is_cut else inf

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                return
            self._limit.count(len(piece))
            yield piece

    async def aclose(self) -> None:
        """Close the connection to the server."""
        await self._stream.aclose()


@cache
def _counted_stream(library: str) -> type[_Counted]:
    """Return the counting stream as a subclass of this HTTP library's streams, because it accepts no others."""
    return type("CountedStream", (_Counted, import_module(library).AsyncByteStream), {})
