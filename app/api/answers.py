"""The answers of all routes that write text. `Plan` runs the requests in the engine and answers the client.

Each route has a subclass of `Plan`, which adds only the formats of its answer and its events. An answer may be a
stream of JSON events, by default server-sent events. If a reply fails, the last event is its error.
"""

import asyncio
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import time
from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse
from starlette.requests import Request as HttpRequest
from starlette.responses import StreamingResponse

from app.api.engine_reply import EngineReply, engine_reply, tokenised, unless_closed
from app.api.errors import ApiError, error_body
from app.api.services import ApiServices
from app.conversation.reply_parsing import Delta, ParsedReply, Parser, TextDelta, TextParser
from app.conversation.tool_use import ToolUse
from app.engine.session.jobs import TokenisedRequest
from app.errors import AppError, GrammarRefused
from app.values.logits import TokenLogprobs
from app.values.messages import Message, Request

Json = dict[str, Any]
Logprobs = Sequence[TokenLogprobs]
DONE = b"data: [DONE]\n\n"
STREAMED: dict[int | str, Json] = {200: {"content": {"text/event-stream": {}}}}
"""The entry in the OpenAPI schema for routes whose answers may be streams."""
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\u2028\u2029\u0085"}
"""Characters at which some clients split lines although JSON may contain them, and how they are escaped."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
NOT_ENFORCED = "x-foresight-not-enforced"
"""The header that names the keywords of a JSON Schema that are not enforced, so the answer may violate them."""
PATIENCE = 1.0
"""Seconds after which a stream's headers are sent, even if its reply has no event yet."""
COMMENT_SECONDS = 5.0
"""Seconds between two comments of a waiting stream, so that no proxy or client closes the connection."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answer's choices (OpenAI's word for alternative replies), while it is written."""

    index: int
    reply: EngineReply
    is_first: bool = True
    """Whether this is the first choice of its prompt."""
    parsed: ParsedReply = field(default_factory=ParsedReply)

    @property
    def finish_reason(self) -> str:
        """Why the reply ended, in OpenAI's words: "stop", "length" or "tool_calls"."""
        reason, calls = self.reply.finish_reason, self.parsed.calls
        # a stop string may have ended the reply inside the arguments of a call
        is_cut = self.reply.finished.reason == "stop_string" and calls and calls[-1].is_cut
        return "tool_calls" if calls and reason == "stop" and not is_cut else reason

    @property
    def thought_tokens(self) -> int:
        """How many of the reply's tokens are its thought."""
        end = self.parsed.thought_end
        return sum(mark.end <= end for mark in self.reply.count.marks) if end else 0


def answer_head(prefix: str, kind: str, model: str) -> Json:
    """Return the fields with which completions and chat completions begin, with a new id."""
    return {
        "id": f"{prefix}-{secrets.token_hex(12)}", "object": kind, "created": int(time()), "model": model,
    }  # fmt: skip


class Plan(ABC):
    """The engine requests, one for each choice, and the format of the answer. A plan is used once."""

    form_param = "response_format"
    """Name of the request's parameter that gives the format of the text."""
    path = "/v1/"
    """The beginning of the route's path, which decides the format of errors."""
    ends_with_done = True
    media_type = "text/event-stream"
    comment = b": waiting\n\n"
    """Clients skip this comment. It is sent every COMMENT_SECONDS while a stream waits for its first event."""

    def __init__(self, requests: Sequence[Request], tools: ToolUse) -> None:
        self.requests, self.tools = requests, tools
        left_out = tools.not_enforced
        self.headers = HEADERS | ({NOT_ENFORCED: ", ".join(left_out)} if left_out else {})

    def begin(self, _index: int) -> Iterable[Json]:
        return ()

    @abstractmethod
    def add(self, choice: Choice, delta: Delta, logprobs: Logprobs) -> Iterable[Json]:
        """Return the events of a delta; `logprobs` belong to the tokens since the previous delta."""

    @abstractmethod
    def end(self, choice: Choice) -> Iterable[Json]:
        """Return the events that come after a choice's text."""

    def last(self, _choices: Sequence[Choice]) -> Iterable[Json]:
        return ()

    @abstractmethod
    def whole(self, choices: Sequence[Choice]) -> Json:
        """Return the body of an answer that is not streamed."""

    def failed(self, error: AppError) -> Json:
        """Return the last event of a stream whose reply failed. Clients raise this event as an error."""
        return error_body(error, self.path)

    def numbers(self, choices: Sequence[Choice]) -> Json:
        """Return the token usage of all choices, and Foresight's block on how the first choice was decoded."""
        return {"usage": usage(choices), "foresight": foresight_block(choices[0].reply, self.requests[0])}

    async def answer(self, services: ApiServices, http: HttpRequest, is_stream: bool | None) -> Response:
        """Answer the client, as a stream or as JSON.

        A stream waits up to PATIENCE seconds for its first event, so that a request that is refused in this time
        gets an error status. Then its headers are sent, because some clients give up without headers."""
        requests = await unless_closed(http, self._checked(services))
        choices = list[Choice]()
        events = self._events(services, requests, choices)
        if not is_stream:
            await unless_closed(http, _run_to_the_end(events))
            return JSONResponse(self.whole(choices), headers=self.headers)
        first = asyncio.ensure_future(anext(events))
        try:
            await unless_closed(http, asyncio.wait([first], timeout=PATIENCE))
        except ApiError:
            first.cancel()
            raise
        if first.done():
            first.result()
        return StreamingResponse(
            self._frames(first, events), media_type=self.media_type, headers=self.headers
        )

    async def _checked(self, services: ApiServices) -> list[TokenisedRequest]:
        """Tokenise the requests and check their grammar, without blocking other requests."""
        requests = await tokenised(services, self.requests)
        if grammar := self.requests[0].logits.grammar:
            async with self._naming_grammar():
                await asyncio.to_thread(services.engine.check_grammar, grammar)
        return requests

    @asynccontextmanager
    async def _naming_grammar(self) -> AsyncIterator[None]:
        """Convert GrammarRefused to an ApiError that names the request's parameter with the grammar."""
        try:
            yield
        except GrammarRefused as error:
            raise ApiError(str(error), "tools" if self.tools.forced else self.form_param) from error

    async def _events(
        self, services: ApiServices, requests: Sequence[TokenisedRequest], choices: list[Choice]
    ) -> AsyncGenerator[Json, None]:
        """Yield all events, choice by choice. Appends each choice to `choices` when it begins."""
        for index, request in enumerate(requests):
            async with self._naming_grammar(), engine_reply(services, request) as reply:
                is_first = not index or request.request.prompt is not self.requests[index - 1].prompt
                choices.append(choice := Choice(index, reply, is_first))
                for event in self.begin(index):
                    yield event
                prompt = self.requests[index].prompt
                parser = self.tools.parser(_begun(prompt)) if isinstance(prompt, tuple) else TextParser()
                async for delta, logprobs in _deltas(choice, parser):
                    for event in self.add(choice, delta, logprobs):
                        yield event
            for event in self.end(choice):
                yield event
        for event in self.last(choices):
            yield event

    async def _frames(
        self, first: asyncio.Future[Json], rest: AsyncGenerator[Json, None]
    ) -> AsyncIterator[bytes]:
        try:
            while not first.done():
                yield self.comment
                await asyncio.wait([first], timeout=COMMENT_SECONDS)
            yield self.frame(first.result())
            async for event in rest:
                yield self.frame(event)
        except AppError as error:
            yield self.frame(self.failed(error))
            return
        finally:
            if first.done():
                await rest.aclose()
            first.cancel()  # this also ends the generator of events
        if self.ends_with_done:
            yield DONE

    def frame(self, event: Json) -> bytes:
        """Encode an event as a server-sent event. An event with a type has that type as its name."""
        name = f"event: {event['type']}\n" if "type" in event else ""
        text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
        return f"{name}data: {text.translate(LINE_ENDS)}\n\n".encode(errors="replace")


async def _run_to_the_end(events: AsyncIterator[Json]) -> None:
    async for _ in events:
        pass


def _begun(chat: Sequence[Message]) -> str:
    """Return the text of the reply that is to be continued; "" if the chat asks for a new reply."""
    return chat[-1].content if chat[-1].role == "assistant" and not chat[-1].calls else ""


async def _deltas(choice: Choice, parser: Parser) -> AsyncIterator[tuple[Delta, Logprobs]]:
    """Add each delta of the reply to the choice, and yield it with the log probabilities since the last delta."""
    waiting: tuple[TokenLogprobs, ...] = ()
    async for text, logprobs in choice.reply.texts():
        waiting += logprobs
        for delta in parser.push(text):
            choice.parsed.add(delta)
            choice.parsed.thought_end = parser.thought_end
            yield delta, waiting
            waiting = ()
    is_cut = choice.reply.finish_reason == "length"
    for delta in parser.flush(is_cut) or ([TextDelta("")] if waiting else []):
        choice.parsed.add(delta)
        yield delta, waiting
        waiting = ()


def usage(choices: Sequence[Choice]) -> Json:
    """Return the token counts: each prompt once, and the replies of all choices together.

    The counts of accepted and rejected prediction tokens include the drafted tokens of all sources."""
    counts = [choice.reply.count for choice in choices]
    prompts = [choice.reply.count.statistics for choice in choices if choice.is_first]
    prompt, cached = (
        sum(getattr(one, name) for one in prompts) for name in ("prompt_tokens", "reused_tokens")
    )
    completion = sum(len(count.token_ids) for count in counts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "accepted_prediction_tokens": sum(count.accepted for count in counts),
            "rejected_prediction_tokens": sum(count.rejected for count in counts),
            "reasoning_tokens": sum(choice.thought_tokens for choice in choices),
            "audio_tokens": 0,
        },
    }


def foresight_block(reply: EngineReply, request: Request) -> Json:
    """Return statistics on how a reply was decoded, for which OpenAI's API has no fields."""
    numbers = reply.count.statistics
    return {
        "decoder": reply.finished.decoder,
        "seed": request.options.sampling.seed,
        "tokens_per_step": round(numbers.tokens_per_step, 4),
        "hit_rate": round(numbers.hit_rate, 4),
        "rows_per_step": round(numbers.rows_per_step, 4),
        "tokens_per_second": round(numbers.tokens_per_second, 2),
        "sources": dict(reply.count.sources),
        "draft_model": reply.finished.model.draft_model,
        "time_to_first_token": round(numbers.time_to_first_token, 4),
    }
