"""The errors of the API, in the format of the route: OpenAI's, Anthropic's or Ollama's."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from app.errors import AppError, BadOption, PromptTooLong

NO_RETRY = {"x-should-retry": "false"}
"""The header of all errors. Without it OpenAI's clients would retry after status 408, 409, 429 and 5xx."""
LONGEST, LONGEST_PARAM = 1_000, 200
"""Maximum number of characters of an error's sentence, and of a parameter's path such as messages[0].content."""
CONTEXT_EXCEEDED = "context_length_exceeded"
KINDS = {401: "authentication_error"}
ANTHROPIC_KINDS = {403: "permission_error", 404: "not_found_error", 413: "request_too_large"}
"""Anthropic's error types besides KINDS. Other statuses below 500 have the type "invalid_request_error"."""


class ApiError(AppError):
    """Error of a refused or failed request, with a status, a sentence, and the wrong parameter if it is known."""

    def __init__(
        self, sentence: str, param: str | None = None, status: int = 400, code: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.param, self.status, self.code = param, status, code


def api_error(error: Exception) -> ApiError:
    """Convert an error to an ApiError. An ApiError or HTTPException keeps its status.

    Other errors get status 400 if the request is wrong, or else 500."""
    match error:
        case ApiError():
            return error
        case PromptTooLong():
            return ApiError(str(error), code=CONTEXT_EXCEEDED)
        case AppError():
            return ApiError(str(error), status=400 if isinstance(error, BadOption) else 500)
        case RequestValidationError():
            return _invalid(error.errors())
        case HTTPException():
            return ApiError(str(error.detail), status=error.status_code)
    return ApiError(f"Something went wrong inside Foresight ({type(error).__name__}).", status=500)


def error_body(error: AppError, path: str) -> dict[str, Any]:
    """Return the body of an answer that reports this error, in the format of the route at `path`.

    The error's sentence is shortened, because it may quote a long part of the request."""
    refused = api_error(error)
    sentence, status, param = _cut(str(error), LONGEST), refused.status, refused.param
    kind = "server_error" if status >= 500 else KINDS.get(status, "invalid_request_error")
    if path.startswith("/api/"):
        return {"error": sentence}
    if path.startswith("/v1/messages"):
        kind = "api_error" if status >= 500 else ANTHROPIC_KINDS.get(status, kind)
        return {"type": "error", "error": {"type": kind, "message": sentence}}
    place = param and _cut(param, LONGEST_PARAM)
    return {"error": {"message": sentence, "type": kind, "param": place, "code": refused.code}}


def _cut(text: str, most: int) -> str:
    """Return the text; a text longer than `most` is reduced to its beginning and its end."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def add_error_handlers(app: FastAPI) -> None:
    """Answer every error in the format of its route.

    The handler is `async`, because each client that disconnects raises an ApiError, and Starlette would run a
    synchronous handler on a thread each time."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        found, path, headers = api_error(error), request.url.path, NO_RETRY
        if isinstance(error, HTTPException):
            headers = {**NO_RETRY, **(error.headers or {})}
            if error.status_code in (404, 405):
                sentence = f"There is no {request.method} {path} here: docs/api.md lists the routes."
                found = ApiError(sentence, status=error.status_code)
        return JSONResponse(error_body(found, path), found.status, headers)

    for kind in (AppError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)


@contextmanager
def validated_at(place: str, names: Mapping[Any, str] = {}) -> Iterator[None]:
    """Convert a ValidationError of the block to an ApiError that names the wrong field below `place`.

    `names` maps a field to the name under which the client has sent it."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        loc = [names.get(part, part) for part in first["loc"]]
        raise _invalid([{**first, "loc": (place, *loc)}]) from error


def _invalid(problems: Sequence[Any]) -> ApiError:
    """Return the first problem as an error that names the parameter, such as messages[0].content."""
    first = problems[0]
    place = [part for part in first["loc"] if part not in ("body", "query", "path")]
    if first["type"] == "json_invalid":
        return ApiError("The request body is not valid JSON.")
    if not place:
        return ApiError("The request's body must be a JSON object.")
    param = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    words = str(first["msg"]).removeprefix("Value error, ")
    return ApiError(f"{param}: {words}.", param)
