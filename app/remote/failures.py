"""Turns errors of servers into sentences that say what happened and what to do."""

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
"""Maximum number of characters of a server's error message that are shown."""
UNREACHABLE = (openai.APIConnectionError, httpx.TransportError, OSError)
"""Errors of the connection; version 2 of the client does not wrap httpx's errors while it reads a stream."""
TIMEOUTS = (openai.APITimeoutError, httpx.TimeoutException, TimeoutError)


def sentence_of(
    error: Exception, server: Server, request: Request | None = None, has_begun: bool = False
) -> str:
    """Return the error as a sentence.

    `request` is the reply's request, None for other calls. With `has_begun` a part of the reply has arrived."""
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
            return f"{host} ended the reply with an error{_message(error, server)}. Try again, or look at its log."
    log.exception("a server could not be asked", exc_info=error)
    return f"{host} could not be asked because of a bug in Foresight ({type(error).__name__}). Try again."


def _odd_answer(error: Exception, server: Server) -> str:
    """Return the sentence for an answer that does not follow OpenAI's API; "" for other errors."""
    if refused := next((cause for cause in _causes(error) if isinstance(cause, AnswerRefused)), None):
        return f"{server.host} {refused}. Check the address, or update the server."
    if isinstance(error, WrongType):
        return (
            f"{server.host} sent a reply that does not follow OpenAI's API ({error}). Check the address, or update "
            "the server."
        )
    if isinstance(error, NotAnApi):
        return _no_api(server)
    # A RecursionError comes from JSON that is nested too deeply.
    if isinstance(error, ValueError | RecursionError) and not isinstance(error, OSError):
        return (
            f"{server.host} sent an answer that is not valid JSON. Check the address, or update the server."
        )
    return ""


def cut_off(host: str) -> str:
    """Return the sentence for a connection that ended before the reply was complete."""
    return f"The connection to {host} broke before the reply was complete. Try again."


def _unreachable(error: Exception, server: Server) -> str:
    *_, cause = _causes(error)  # the system's error message is clearer than the client's
    if isinstance(cause, ssl.SSLError):
        return f"No encrypted connection to {server.host} ({cause.reason or first_line(cause)}). Check the address."
    if not server.is_here and (proxy := proxy_for(server.address)):
        return (
            f"Can't reach {server.host} through the proxy {proxy} ({_reason(cause)}). Check HTTPS_PROXY, "
            "HTTP_PROXY and ALL_PROXY, and that the server is running."
        )
    return f"Can't reach {server.host} ({_reason(cause)}). Check the address, and that the server is running."


def _reason(error: BaseException) -> str:
    """Return the system's message for an error, because asyncio's message would repeat the address."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno) if error.errno > 0 else error.strerror or first_line(error)
    return first_line(error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _refused(error: openai.APIStatusError, server: Server, request: Request | None) -> str:
    host, status = server.host, error.status_code
    message, phrase = _message(error, server), f"{status} {error.response.reason_phrase}".strip()
    match status:
        case 401 | 403:
            asks = "refused the key" if server.key else "asks for a key"
            return f"{host} {asks} ({status}). Enter the right one with the address under Models → Installed."
        case 400 | 422 if request and continues(request):
            return f"{host} does not continue a reply ({phrase}){message}. Regenerate the reply instead."
        case 404 if request and message:
            name = request.model.name
            return f"{host} has no model {name} (404). List its models again under Models → Installed."
        case 404:
            return _no_api(server)
        case 429:
            return (
                f"{host} takes no more requests at the moment (429){message}. Wait a little, then try again."
            )
        case _ if status >= 500:
            return f"{host} failed ({phrase}){message}. Try again, or look at its log."
        case _ if 300 <= status < 400:
            return f"{host} redirects to another address ({status}). Enter that address under Models → Installed."
    return f"{host} refused the request ({phrase}){message}. Look at its log, or choose another model."


def _no_api(server: Server) -> str:
    return (
        f"There is no OpenAI-compatible API at {server.address}. "
        "Check the address: on most servers it ends with /v1."
    )


def _message(error: openai.APIError, server: Server) -> str:
    """Return the server's error message as ": message", without the key; "" if there is none."""
    words: Any = error.body
    for name in ("error", "message", "detail"):
        words = words.get(name, words) if isinstance(words, dict) else words
    if not isinstance(words, str) or words.lstrip().startswith("<"):
        return ""
    message = plain_words(words.replace(server.key or "\0", "…"), LONGEST).rstrip(".")
    return f": {message}" if message else ""
