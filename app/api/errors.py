"""Errors in OpenAI's form: {"error": {"message", "type", "param", "code"}}.

OpenAI's clients retry after 408, 409, 429 and 5xx, unless a header forbids it. All errors here send that header,
because the request would fail again.
"""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from app.errors import AppError

NO_RETRY = {"x-should-retry": "false"}
LONGEST, LONGEST_PARAM = 1_000, 200
"""Maximum number of characters of an error's sentence, and of a parameter's path such as messages[0].content."""
KINDS = {401: "authentication_error"}
"""Error types that do not follow from the kind of status; LiteLLM looks at the type before the status."""


class ApiError(AppError):
    """A request was refused or has failed: has the status, a sentence, and the parameter at fault."""

    def __init__(
        self, sentence: str, param: str | None = None, status: int = 400, code: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.param, self.status, self.code = param, status, code

    @property
    def body(self) -> dict[str, Any]:
        """The body of the answer that the client receives."""
        return error_body(str(self), self.status, self.param, self.code)


def error_body(
    sentence: str, status: int, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return an error in OpenAI's form.

    Its sentence is shortened, because it may quote a long part of the request."""
    kind = "server_error" if status >= 500 else KINDS.get(status, "invalid_request_error")
    place = param and _cut(param, LONGEST_PARAM)
    return {"error": {"message": _cut(sentence, LONGEST), "type": kind, "param": place, "code": code}}


def _cut(text: str, most: int) -> str:
    """Return the text; of a text longer than `most`, only its beginning and its end."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def add_error_handlers(app: FastAPI) -> None:
    """Add handlers that answer every error in OpenAI's form.

    They are `async`: each client that hangs up raises an ApiError, and Starlette would run a synchronous handler
    for each of them on a thread."""

    def response(error: ApiError) -> JSONResponse:
        return JSONResponse(error.body, error.status, NO_RETRY)

    @app.exception_handler(ApiError)
    async def refused(_request: Request, error: ApiError) -> JSONResponse:
        return response(error)

    @app.exception_handler(AppError)
    async def failed(_request: Request, error: AppError) -> JSONResponse:
        return response(ApiError(str(error), status=500))

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        return response(_invalid(error.errors()))

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException) -> JSONResponse:
        sentence = str(error.detail)
        if error.status_code in (404, 405):
            sentence = f"There is no {request.method} {request.url.path} here: docs/api.md lists the routes."
        headers = {**NO_RETRY, **(error.headers or {})}
        return JSONResponse(error_body(sentence, error.status_code), error.status_code, headers)

    @app.exception_handler(Exception)
    async def broken(_request: Request, error: Exception) -> JSONResponse:
        return response(
            ApiError(f"Something went wrong inside Foresight ({type(error).__name__}).", status=500)
        )


def invalid_part(error: ValidationError, place: str) -> ApiError:
    """Return the first error of a part of the body, at `place`, that was validated by itself."""
    first = error.errors()[0]
    return _invalid([{**first, "loc": (place, *first["loc"])}])


def _invalid(problems: Sequence[Any]) -> ApiError:
    """Return the first problem as an error that names the parameter, such as messages[0].content."""
    first = problems[0]
    place = [part for part in first["loc"] if part not in ("body", "query", "path")]
    if first["type"] == "json_invalid":
        return ApiError("The request body is not valid JSON.")
    if not place:
        return ApiError("The body must be a JSON object, sent with 'Content-Type: application/json'.")
    param = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    words = str(first["msg"]).removeprefix("Value error, ")
    return ApiError(f"{param}: {words}.", param)
