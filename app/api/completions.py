"""POST /v1/completions: continues the client's texts without a chat template."""

import asyncio
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from time import time
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import Field
from starlette.requests import Request as HttpRequest

from app.api.answers import STREAMED, Choice, Json, Logprobs, Plan
from app.api.errors import ApiError
from app.api.reply_parsing import Delta, Parser, TextDelta, TextParser
from app.api.request_fields import JsonRoute, Limit, PenaltyFields, Some, engine_requests, refuse
from app.api.services import ApiServices, ServedModel
from app.api.tool_use import ResponseFormat, ToolUse, form_grammar
from app.values.logits import MOST_LOGPROBS
from app.values.messages import Request

MOST_PROMPTS = 64


class CompletionRequest(PenaltyFields):
    prompt: str | Some[str] | Some[int] | Some[Some[int]] = Field(min_length=1)
    max_tokens: Limit = None
    logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    response_format: ResponseFormat | None = None
    echo: bool | None = False
    suffix: str | None = None
    best_of: int | None = None


class CompletionPlan(Plan):
    def __init__(self, asked: CompletionRequest, model: ServedModel) -> None:
        refuse(asked.echo, "echo", "put the prompt before the text yourself")
        refuse(asked.suffix, "suffix", "it continues a text only at its end")
        refuse((asked.best_of or 1) > (asked.n or 1), "best_of", "ask for n choices")
        tools = ToolUse(form=form_grammar(asked.response_format))
        top, requests = -1 if asked.logprobs is None else asked.logprobs, list[Request]()
        for prompt in _prompts(asked.prompt):
            requests += engine_requests(asked, model, prompt, tools, asked.max_tokens, top_logprobs=top)
        super().__init__(requests, tools)
        self._has_usage, self._has_logprobs = asked.has_usage_chunk, asked.logprobs is not None
        self._offset = 0  # where the next token begins in its choice's text
        self._head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time()),
            "model": model.id,
        }

    def parser(self) -> Parser:
        """Make a parser for which all of the text is the answer."""
        return TextParser()

    def begin(self, _index: int) -> Iterable[Json]:
        self._offset = 0
        return ()

    def add(self, choice: Choice, delta: Delta, logprobs: Logprobs) -> Iterator[Json]:
        text = delta.text if isinstance(delta, TextDelta) else ""
        yield self._body([self._choice(choice.index, text, logprobs, None, self._offset)])
        self._offset += sum(len(one.chosen.text) for one in logprobs)

    def end(self, choice: Choice) -> Iterator[Json]:
        yield self._body([self._choice(choice.index, "", (), choice.finish_reason)])

    def last(self, choices: Sequence[Choice]) -> Iterator[Json]:
        """Return the chunk with the usage, if the client asked for it."""
        if self._has_usage:
            yield self._body([], **self.numbers(choices))

    def whole(self, choices: Sequence[Choice]) -> Json:
        found = [
            self._choice(one.index, one.parsed.text, one.reply.count.logprobs, one.finish_reason)
            for one in choices
        ]
        return self._body(found, **self.numbers(choices))

    def _body(self, choices: list[Json], **more: Any) -> Json:
        return {**self._head, "choices": choices, **more}

    def _choice(self, index: int, text: str, logprobs: Logprobs, reason: str | None, offset: int = 0) -> Json:
        shown = _logprobs(logprobs, offset) if self._has_logprobs else None
        return {"index": index, "text": text, "logprobs": shown, "finish_reason": reason}


def completions_router(services: ApiServices) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)

    @router.post("/completions", responses=STREAMED)
    async def complete(asked: CompletionRequest, http: HttpRequest) -> Response:
        """Continue the given prompts, as a stream or whole."""
        model = await services.chosen(asked.model)
        plan = await asyncio.to_thread(CompletionPlan, asked, model)
        return await plan.answer(services, http, asked.stream)

    return router


def _prompts(given: str | list[Any]) -> list[str]:
    prompts = [given] if isinstance(given, str) else given
    if not all(isinstance(prompt, str) for prompt in prompts):
        raise ApiError("prompt: Foresight takes texts, not the ids of tokens.", "prompt")
    if not all(prompts):
        raise ApiError("prompt must not be empty.", "prompt")
    if len(prompts) > MOST_PROMPTS:
        raise ApiError(f"prompt has {len(prompts)} texts: send at most {MOST_PROMPTS} at once.", "prompt")
    return prompts


def _logprobs(tokens: Logprobs, offset: int) -> Json:
    """Return log probabilities in the form of completions; `offset` is where the first token begins in the text."""
    texts = [one.chosen.text for one in tokens]
    return {
        "tokens": texts,
        "token_logprobs": [max(one.chosen.logprob, -9999.0) for one in tokens],
        "top_logprobs": [
            {other.text: max(other.logprob, -9999.0) for other in one.likeliest} for one in tokens
        ],
        "text_offset": list(accumulate(map(len, texts[:-1]), initial=offset)) if texts else [],
    }
