"""What went wrong with a server, as a sentence that says what to do."""

import logging
import os
import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import openai

from app.errors import AppError, first_line
from app.remote.client import NotAnApi, continues
from app.system.answer_limits import AnswerRefused, WrongType, plain_words
from app.system.environment import proxy_for
from app.values.messages import Request
from app.values.server import Server

log = logging.getLogger(__name__)
LONGEST = 300
"""Characters of a server's own words that are shown."""
UNREACHABLE = (openai.APIConnectionError, httpx.TransportError, OSError)
"""Version 2 of the client lets those of httpx through while it reads a stream."""
TIMEOUTS = (openai.APITimeoutError, httpx.TimeoutException, TimeoutError)


def sentence_of(
    error: Exception, server: Server, request: Request | None = None, has_begun: bool = False
) -> str:
    """The error as a sentence. `request` is that of a reply, `has_begun` once a part of it has come."""
    host = server.host
    match error:
        case AppError():
            return str(error)
        case _ if odd := _odd_answer(error, server):
            return odd
        case _ if isinstance(error, TIMEOUTS):
            return (
                f"{host} did not answer in time. Check that it is running and not overloaded, then try again."
            )
        case openai.APIStatusError():
            return _refused(error, server, request)
        case _ if isinstance(error, UNREACHABLE):
            return cut_off(host) if has_begun else _unreachable(error, server)
        case openai.APIError():
            return (
                f"{host} ended the reply with an error{_said(error, server)}. Try again, or look at its log."
            )
    log.exception("a server could not be asked", exc_info=error)
    return f"{host} could not be asked because of a bug in Foresight ({type(error).__name__}). Try again."


def _odd_answer(error: Exception, server: Server) -> str:
    """The sentence for an answer that no OpenAI-compatible API gives; "" for other errors."""
    if refused := next((cause for cause in _causes(error) if isinstance(cause, AnswerRefused)), None):
        return f"{server.host} {refused}. Check the address, or update the server."
    if isinstance(error, WrongType):
        return (
            f"{server.host} sent a reply in another form than OpenAI's API ({error}). Check the address, or update "
            "the server."
        )
    if isinstance(error, NotAnApi):
        return _no_api(server)
    # A RecursionError comes from brackets without end.
    if isinstance(error, ValueError | RecursionError) and not isinstance(error, OSError):
        return (
            f"{server.host} answered with something that is no JSON. Check the address, or update the server."
        )
    return ""


def cut_off(host: str) -> str:
    """The sentence for a stream that ended before the reply did."""
    return f"The connection to {host} broke before the reply was complete. Try again."


def _unreachable(error: Exception, server: Server) -> str:
    *_, cause = _causes(error)  # the system's own words are clearer than the client's
    if isinstance(cause, ssl.SSLError):
        return f"No encrypted connection to {server.host} ({cause.reason or first_line(cause)}). Check the address."
    if not server.is_here and (proxy := proxy_for(server.address)):
        return (
            f"Can't reach {server.host} through the proxy {proxy} ({_reason(cause)}). Check HTTPS_PROXY, "
            "HTTP_PROXY and ALL_PROXY, and that the server is running."
        )
    return f"Can't reach {server.host} ({_reason(cause)}). Check the address, and that the server is running."


def _reason(error: BaseException) -> str:
    """The system's own words; asyncio has others with the address in them."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno) if error.errno > 0 else error.strerror or first_line(error)
    return first_line(error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yields an error, its cause, the cause of that, and so on."""
    cause: BaseException | None = error
    while cause:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _refused(error: openai.APIStatusError, server: Server, request: Request | None) -> str:
    host, status = server.host, error.status_code
    said, phrase = _said(error, server), f"{status} {error.response.reason_phrase}".strip()
    match status:
        case 401 | 403:
            asks = "refused the key" if server.key else "asks for a key"
            return f"{host} {asks} ({status}). Enter the right one with the address under Models → Installed."
        case 400 | 422 if request and continues(request):
            return f"{host} does not continue a reply ({phrase}){said}. Regenerate the reply instead."
        case 404 if request and said:
            name = request.model.name
            return f"{host} has no model {name} (404). List its models again under Models → Installed."
        case 404:
            return _no_api(server)
        case 429:
            return f"{host} takes no more requests at the moment (429){said}. Wait a little, then try again."
        case _ if status >= 500:
            return f"{host} failed ({phrase}){said}. Try again, or look at its log."
        case _ if 300 <= status < 400:
            return f"{host} redirects to another address ({status}). Enter that one under Models → Installed."
    return f"{host} refused the request ({phrase}){said}."


def _no_api(server: Server) -> str:
    return (
        f"There is no OpenAI-compatible API at {server.address}. "
        "Check the address: on most servers it ends with /v1."
    )


def _said(error: openai.APIError, server: Server) -> str:
    """The server's own words, if it has any, without the key."""
    words: Any = error.body
    for name in ("error", "message", "detail"):
        words = words.get(name, words) if isinstance(words, dict) else words
    if not isinstance(words, str) or words.lstrip().startswith("<"):
        return ""
    said = plain_words(words.replace(server.key or "\0", "…"), LONGEST).rstrip(".")
    return f": {said}" if said else ""
