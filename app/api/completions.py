"""POST /v1/completions: text goes on, without a chat template."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from itertools import accumulate
from time import time
from typing import Annotated, Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.requests import Request as HttpRequest

from app.api.body import JsonRoute, Some
from app.api.engine_reply import EngineReply, engine_reply, tokenised, unless_closed
from app.api.errors import ApiError
from app.api.event_stream import DONE, STREAMED, begun_stream, frame
from app.api.sampling_fields import Asked, PenaltyFields, Positive, engine_requests, refuse
from app.api.services import ApiServices, ServedModel
from app.api.tool_calls import TextParser
from app.api.tools import ResponseFormat, form_grammar
from app.api.usage import foresight_block, usage
from app.api.written import Written, deltas
from app.values.logits import MOST_LOGPROBS, TokenLogprobs
from app.values.messages import Request

DEFAULT_TOKENS = 16
"""As OpenAI's API has it."""
MOST_PROMPTS = 64


class CompletionRequest(PenaltyFields):
    """The body."""

    prompt: str | Some[str] | Some[int] | Some[Some[int]] = Field(min_length=1)
    max_tokens: Positive | None = DEFAULT_TOKENS
    logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    response_format: ResponseFormat | None = None
    echo: bool | None = False
    suffix: str | None = None
    best_of: int | None = None


def completions_router(services: ApiServices) -> APIRouter:
    """The route."""
    router = APIRouter(route_class=JsonRoute)

    @router.post("/completions", responses=STREAMED)
    async def complete(asked: CompletionRequest, http: HttpRequest) -> Response:
        """Continue texts."""
        model = await services.chosen(asked.model)
        plan = await asyncio.to_thread(_Plan, asked, model)
        if asked.stream:
            return await begun_stream(http, plan.chunks(services))
        return JSONResponse(await unless_closed(http, plan.answer(services)))

    return router


class _Plan:
    """A request of the engine for each choice of each prompt."""

    def __init__(self, asked: CompletionRequest, model: ServedModel) -> None:
        refuse(asked.echo, "echo", "put the prompt before the text yourself")
        refuse(asked.suffix, "suffix", "it writes on at the end alone")
        refuse((asked.best_of or 1) > (asked.n or 1), "best_of", "ask for n choices")
        self.requests: list[Request] = []
        for prompt in _prompts(asked.prompt):
            limit = asked.max_tokens or DEFAULT_TOKENS
            top = -1 if asked.logprobs is None else asked.logprobs
            grammar = form_grammar(asked.response_format)
            wanted = Asked(prompt, limit, asked.stops, grammar=grammar, top_logprobs=top)
            self.requests += engine_requests(asked, model, wanted)
        self._has_usage = asked.has_usage_chunk
        self._has_logprobs = asked.logprobs is not None
        self._head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time()),
            "model": model.id,
        }

    async def answer(self, services: ApiServices) -> dict[str, Any]:
        """The whole answer."""
        choices, replies = list[dict[str, Any]](), list[EngineReply]()
        for index, request in enumerate(await tokenised(services, self.requests)):
            written = Written()
            async with engine_reply(services, request) as reply:
                async for _ in deltas(reply, TextParser(), written):
                    pass
            replies.append(reply)
            choices.append(self._choice(index, written.text, reply.count.logprobs, reply.finish_reason))
        return {**self._head, "choices": choices, **self._numbers(replies)}

    async def chunks(self, services: ApiServices) -> AsyncGenerator[bytes, None]:
        """The frames of a stream."""
        replies = list[EngineReply]()
        for index, request in enumerate(await tokenised(services, self.requests)):
            async with engine_reply(services, request) as reply:
                replies.append(reply)
                offset = 0
                async for delta, logprobs in deltas(reply, TextParser(), Written()):
                    text = getattr(delta, "text", "")
                    yield self._chunk([self._choice(index, text, logprobs, None, offset)])
                    offset += sum(len(one.chosen.text) for one in logprobs)
                yield self._chunk([self._choice(index, "", (), reply.finish_reason)])
        if self._has_usage:
            yield self._chunk([], **self._numbers(replies))
        yield DONE

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        return frame({**self._head, "choices": choices, **more})

    def _choice(
        self, index: int, text: str, logprobs: Sequence[TokenLogprobs], reason: str | None, offset: int = 0
    ) -> dict[str, Any]:
        shown = _logprobs(logprobs, offset) if self._has_logprobs else None
        return {"index": index, "text": text, "logprobs": shown, "finish_reason": reason}

    def _numbers(self, replies: list[EngineReply]) -> dict[str, Any]:
        return {"usage": usage(replies), "foresight": foresight_block(replies[0], self.requests[0])}


def _prompts(given: str | list[Any]) -> list[str]:
    prompts = [given] if isinstance(given, str) else given
    if not all(isinstance(prompt, str) for prompt in prompts):
        raise ApiError("prompt: Foresight takes texts, not the ids of tokens.", "prompt")
    if not all(prompts):
        raise ApiError("prompt must not be empty.", "prompt")
    if len(prompts) > MOST_PROMPTS:
        raise ApiError(f"prompt has {len(prompts)} texts: send at most {MOST_PROMPTS} at once.", "prompt")
    return prompts


def _logprobs(tokens: Sequence[TokenLogprobs], offset: int) -> dict[str, Any]:
    """As completions have them; the first token's text begins at this offset of the choice's."""
    texts = [one.chosen.text for one in tokens]
    return {
        "tokens": texts,
        "token_logprobs": [max(one.chosen.logprob, -9999.0) for one in tokens],
        "top_logprobs": [
            {other.text: max(other.logprob, -9999.0) for other in one.likeliest} for one in tokens
        ],
        "text_offset": list(accumulate(map(len, texts[:-1]), initial=offset)) if texts else [],
    }
