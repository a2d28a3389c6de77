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
from app.api.request_fields import JsonRoute, Limit, PenaltyFields, Some, TokenId, engine_requests, refuse
from app.api.response_format import ResponseFormat, form_grammar
from app.api.services import ApiServices, ServedModel
from app.api.tool_use import ToolUse
from app.values.logits import MOST_LOGPROBS, LikelyToken
from app.values.messages import Request, TokenIds

MOST_PROMPTS = 64


class CompletionRequest(PenaltyFields):
    prompt: str | Some[TokenId] | Some[str] | Some[Some[TokenId]] = Field(min_length=1)
    max_tokens: Limit = None
    logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    response_format: ResponseFormat | None = None
    echo: bool | None = False
    suffix: str | None = None
    best_of: int | None = None


class CompletionPlan(Plan):
    def __init__(self, asked: CompletionRequest, model: ServedModel) -> None:
        refuse(asked.suffix, "suffix", "it continues a text only at its end")
        refuse((asked.best_of or 1) > (asked.n or 1), "best_of", "ask for n choices")
        tools = ToolUse(form=form_grammar(asked.response_format))
        top, requests = -1 if asked.logprobs is None else asked.logprobs, list[Request]()
        self._has_usage, self._has_logprobs = asked.has_usage_chunk, asked.logprobs is not None
        self._is_echo, self._is_begun = bool(asked.echo), False
        for prompt in _prompts(asked.prompt):
            # The text of token ids is known from their log probabilities.
            of_prompt = self._is_echo and (self._has_logprobs or isinstance(prompt, TokenIds))
            likely = max(0, top) if of_prompt else top
            requests += engine_requests(
                asked, model, prompt, tools, asked.max_tokens, top_logprobs=likely, of_prompt=of_prompt
            )
        super().__init__(requests, tools)
        self._offset = 0  # the next token's position in its choice's text
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
        self._offset, self._is_begun = 0, False
        return ()

    def add(self, choice: Choice, delta: Delta, logprobs: Logprobs) -> Iterator[Json]:
        """Return the chunk of this delta, after the prompt if it is to be repeated."""
        yield from self._repeated(choice)
        text = delta.text if isinstance(delta, TextDelta) else ""
        yield self._chunk(choice, text, logprobs)

    def end(self, choice: Choice) -> Iterator[Json]:
        yield from self._repeated(choice)
        yield self._body([self._choice(choice.index, "", (), choice.finish_reason)])

    def last(self, choices: Sequence[Choice]) -> Iterator[Json]:
        """Return the chunk with the usage, if the client asked for it."""
        if self._has_usage:
            yield self._body([], **self.numbers(choices))

    def whole(self, choices: Sequence[Choice]) -> Json:
        found = [
            self._choice(
                one.index,
                self._prompt(one) + one.parsed.text,
                [*one.reply.count.prompt_logprobs, *one.reply.count.logprobs],
                one.finish_reason,
            )
            for one in choices
        ]
        return self._body(found, **self.numbers(choices))

    def _repeated(self, choice: Choice) -> Iterator[Json]:
        """Yield a chunk of the prompt, once before the choice's first text, if the client asked to repeat it."""
        if self._is_echo and not self._is_begun:
            yield self._chunk(choice, self._prompt(choice), choice.reply.count.prompt_logprobs)
        self._is_begun = True

    def _prompt(self, choice: Choice) -> str:
        if not self._is_echo:
            return ""
        if isinstance(prompt := self.requests[choice.index].prompt, str):
            return prompt
        spelled = b"".join(one.chosen.spelled for one in choice.reply.count.prompt_logprobs)
        return spelled.decode(errors="replace")

    def _chunk(self, choice: Choice, text: str, logprobs: Logprobs) -> Json:
        offset, self._offset = self._offset, self._offset + sum(len(one.chosen.text) for one in logprobs)
        return self._body([self._choice(choice.index, text, logprobs, None, offset)])

    def _body(self, choices: list[Json], **more: Any) -> Json:
        return {**self._head, "choices": choices, **more}

    def _choice(self, index: int, text: str, logprobs: Logprobs, reason: str | None, offset: int = 0) -> Json:
        is_first = self._is_echo and bool(logprobs) and offset == 0
        shown = _logprobs(logprobs, offset, is_first) if self._has_logprobs else None
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


def _prompts(given: str | list[Any]) -> list[str | TokenIds]:
    prompts = [given] if isinstance(given, str) or isinstance(given[0], int) else given
    if not all(prompts):
        raise ApiError("prompt must not be empty.", "prompt")
    if len(prompts) > MOST_PROMPTS:
        raise ApiError(f"prompt has {len(prompts)} texts: send at most {MOST_PROMPTS} at once.", "prompt")
    return [one if isinstance(one, str) else TokenIds(tuple(one)) for one in prompts]


def _logprobs(tokens: Logprobs, offset: int, is_first: bool) -> Json:
    """Return log probabilities in the format of completions; `offset` is the first token's position in the text.

    A prompt's first token has none, because nothing predicts it."""
    texts = [one.chosen.text for one in tokens]
    chosen = [max(one.chosen.logprob, -9999.0) for one in tokens]
    likeliest = [_by_text(one.likeliest) for one in tokens]
    return {
        "tokens": texts,
        "token_logprobs": [None, *chosen[1:]] if is_first else chosen,
        "top_logprobs": [None, *likeliest[1:]] if is_first else likeliest,
        "text_offset": list(accumulate(map(len, texts[:-1]), initial=offset)) if texts else [],
    }


def _by_text(likeliest: Sequence[LikelyToken]) -> Json:
    """Return log probabilities by text. Several tokens can have the same text: the likeliest counts."""
    found: Json = {}
    for one in likeliest:
        found.setdefault(one.text, max(one.logprob, -9999.0))
    return found
