"""Limits the size of answers from the model hub, model servers and tool servers.

A compressed answer is refused, because one kilobyte of it can expand to a gigabyte. Callers limit the time, because
the HTTP library's own timeouts begin anew with each byte.
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
LONGEST_REFUSAL = 100_000
"""Maximum number of bytes that are read from an answer whose status is not a success."""


class AnswerRefused(Exception):
    """An answer that is not read to its end.

    The message is the rest of a sentence that begins with the server's name: "sent over …"."""


class WrongType(TypeError):
    """A part of an answer has a wrong type. The message names the part and the type: "choices is a dict"."""


def of_type(value: object, kind: type[Kind], name: str) -> Kind:
    """Return this part of an answer if it is of this type. Raises WrongType otherwise."""
    if not isinstance(value, kind):
        raise WrongType(f"{name} is a {type(value).__name__}")
    return value


class AnswerLimit:
    """Limits the bytes of answers. `announce` and `begin` are event hooks for a client of httpx or httpx2."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._got = 0

    async def announce(self, request: Any) -> None:
        """Report to the network log that this thread looks the host up. asyncio does so on another thread, but the
        log gives a connection the name that the connecting thread looked up last."""
        sys.audit("socket.getaddrinfo", request.url.host, None, 0, 0, 0)

    async def begin(self, response: Any) -> None:
        """Begin to count the bytes of this answer. Raises AnswerRefused for a compressed answer."""
        if response.headers.get("Content-Encoding", "").strip().lower() not in ("", "identity"):
            raise AnswerRefused("sent a compressed answer, which it was asked not to do")
        response.encoding = "utf-8"  # a server may name a codec that does not return text
        self.restart()
        stream_class = _counted_stream(type(response).__module__.partition(".")[0])
        response.stream = stream_class(response.stream, self, is_cut=not response.is_success)

    def restart(self) -> None:
        """Count from 0 again, after the caller has used the bytes received so far."""
        self._got = 0

    def count(self, number: int) -> None:
        """Add a number of bytes to the count. Raises AnswerRefused if there are too many."""
        self._got += number
        if self._got > self._most:
            raise AnswerRefused(f"sent over {gigabytes(self._most)}, more than any such answer needs")


def plain_words(text: str, most: int) -> str:
    """Return a server's text on one line, without control characters, cut to `most` characters."""
    return "".join(sign if sign.isprintable() else " " for sign in " ".join(text.split()))[:most]


@cache
def certificates(library: str) -> SSLContext:
    """Return the certificates that httpx or httpx2 trusts. They are cached, because reading them is slow."""
    found: SSLContext = import_module(library).create_ssl_context()
    return found


class _Counted:
    """An answer's body whose bytes are counted.

    With `is_cut` the body ends after at most LONGEST_REFUSAL bytes, because the status of a refusal is enough."""

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
        await self._stream.aclose()


@cache
def _counted_stream(library: str) -> type[_Counted]:
    """Return the counting stream as a subclass of the HTTP library's stream. The library accepts no other class."""
    return type("CountedStream", (_Counted, import_module(library).AsyncByteStream), {})
