"""POST /v1/completions: continues the client's texts without a chat template."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field
from starlette.requests import Request as HttpRequest

from app.api.answers import STREAMED, Choice, Json, Logprobs, Plan, answer_head
from app.api.chat_completions import engine_requests
from app.api.request_fields import JsonRoute, Limit, PenaltyFields, Texts, each_text, refuse
from app.api.services import ServedModel, Services
from app.api.tool_fields import ResponseFormat, form_grammar
from app.conversation.reply_parsing import Delta, TextDelta
from app.conversation.tool_use import ToolUse
from app.values.logits import MOST_LOGPROBS, LikelyToken
from app.values.messages import Request, TokenIds

MOST_PROMPTS = 64


class CompletionRequest(PenaltyFields):
    prompt: Texts
    max_tokens: Limit = None
    logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    response_format: ResponseFormat | None = None
    echo: bool | None = False
    best_of: int | None = None


class CompletionPlan(Plan):
    def __init__(self, asked: CompletionRequest, model: ServedModel) -> None:
        refuse((asked.best_of or 1) > (asked.n or 1), "best_of", "ask for n choices")
        tools = ToolUse(form=form_grammar(asked.response_format))
        top, requests = -1 if asked.logprobs is None else asked.logprobs, list[Request]()
        self._has_usage, self._has_logprobs = asked.has_usage_chunk, asked.logprobs is not None
        self._is_echo, self._is_begun = bool(asked.echo), False
        for text in each_text(asked.prompt, "prompt", MOST_PROMPTS):
            prompt = text if isinstance(text, str) else TokenIds(text)
            # If the prompt is given as token ids, its text is taken from its log probabilities.
            of_prompt = self._is_echo and (self._has_logprobs or isinstance(prompt, TokenIds))
            likely = max(0, top) if of_prompt else top
            requests += engine_requests(
                asked, model, prompt, tools, asked.max_tokens, top_logprobs=likely, of_prompt=of_prompt
            )
        super().__init__(requests, tools)
        self._offset = 0  # the next token's position in its choice's text
        self._head = answer_head("cmpl", "text_completion", model.id)

    def begin(self, _index: int) -> Iterable[Json]:
        self._offset, self._is_begun = 0, False
        return ()

    def add(self, choice: Choice, delta: Delta, logprobs: Logprobs) -> Iterator[Json]:
        yield from self._repeated(choice)
        yield self._chunk(choice, delta.text if isinstance(delta, TextDelta) else "", logprobs)

    def end(self, choice: Choice) -> Iterator[Json]:
        yield from self._repeated(choice)
        yield {**self._head, "choices": [self._choice(choice, "", (), choice.finish_reason)]}

    def last(self, choices: Sequence[Choice]) -> Iterator[Json]:
        if self._has_usage:
            yield {**self._head, "choices": [], **self.numbers(choices)}

    def whole(self, choices: Sequence[Choice]) -> Json:
        found = list[Json]()
        for one in choices:
            count, text = one.reply.count, self._prompt(one) + one.parsed.text
            logprobs = [*count.prompt_logprobs, *count.logprobs]
            found.append(self._choice(one, text, logprobs, one.finish_reason))
        return {**self._head, "choices": found, **self.numbers(choices)}

    def _repeated(self, choice: Choice) -> Iterator[Json]:
        """Yield the prompt as the choice's first chunk, if the client asked to repeat the prompt."""
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
        return {**self._head, "choices": [self._choice(choice, text, logprobs, None, offset)]}

    def _choice(
        self, choice: Choice, text: str, logprobs: Logprobs, reason: str | None, offset: int = 0
    ) -> Json:
        is_first = self._is_echo and bool(logprobs) and offset == 0
        shown = _logprobs(logprobs, offset, is_first) if self._has_logprobs else None
        return {"index": choice.index, "text": text, "logprobs": shown, "finish_reason": reason}


router = APIRouter(route_class=JsonRoute)


@router.post("/completions", responses=STREAMED)
async def complete(services: Services, asked: CompletionRequest, http: HttpRequest) -> Response:
    """Continue the given prompts, as a stream or whole."""
    model = await services.chosen(asked.model)
    plan = await asyncio.to_thread(CompletionPlan, asked, model)
    return await plan.answer(services, http, asked.stream)


def _logprobs(tokens: Logprobs, offset: int, is_first: bool) -> Json:
    """Return log probabilities in the format of completions; `offset` is the first token's position in the text.

    A prompt's first token has no log probability, because no token precedes it."""
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
    """Return log probabilities by text. If several tokens have the same text, keeps that of the likeliest."""
    found: Json = {}
    for one in likeliest:
        found.setdefault(one.text, max(one.logprob, -9999.0))
    return found
