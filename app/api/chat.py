"""POST /v1/chat/completions.

The chunks of a stream: the role alone, content or tool calls, the finish reason, the usage if it is asked for with
no choices, [DONE].
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from time import time
from typing import Annotated, Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.requests import Request as HttpRequest

from app.api.body import JsonRoute, Some
from app.api.chat_messages import MOST_MESSAGES, ChatMessage, engine_messages, template_for
from app.api.engine_reply import EngineReply, engine_reply, tokenised, unless_closed
from app.api.errors import ApiError
from app.api.event_stream import DONE, STREAMED, begun_stream, frame
from app.api.sampling_fields import (
    Asked,
    PenaltyFields,
    Positive,
    Prediction,
    engine_requests,
    refuse,
    text_of,
)
from app.api.services import ApiServices, ServedModel
from app.api.tool_calls import ArgumentsDelta, CallDelta, Delta, TextDelta
from app.api.tool_syntax import ToolTemplate
from app.api.tools import MOST_TOOLS, ResponseFormat, ToolFields, ToolUse, form_grammar, tool_use
from app.api.usage import foresight_block, usage
from app.api.written import Written, chat_logprobs, deltas
from app.values.logits import MOST_LOGPROBS
from app.values.messages import Request


class ChatRequest(PenaltyFields):
    """The body."""

    messages: Some[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    response_format: ResponseFormat | None = None
    tools: Annotated[Some[ToolFields], Field(max_length=MOST_TOOLS)] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    prediction: Prediction | None = None
    modalities: Some[str] | None = None
    audio: Any = None
    functions: Any = None
    function_call: Any = None
    web_search_options: Any = None


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """What is to be done: a request of the engine for each choice."""

    id: str
    created: int
    model: ServedModel
    tools: ToolUse
    requests: Sequence[Request]
    has_logprobs: bool
    has_usage: bool

    def chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        """A frame of the stream."""
        return frame({**self._head("chat.completion.chunk"), "choices": choices, **more})

    def body(self, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """The whole answer."""
        return {**self._head("chat.completion"), "choices": choices, **more}

    def _head(self, kind: str) -> dict[str, Any]:
        head = {"id": self.id, "object": kind, "created": self.created, "model": self.model.id}
        return {**head, "system_fingerprint": "foresight"}


def chat_router(services: ApiServices) -> APIRouter:
    """The route."""
    router = APIRouter(route_class=JsonRoute)

    @router.post("/chat/completions", responses=STREAMED)
    async def complete(asked: ChatRequest, http: HttpRequest) -> Response:
        """Answer a chat."""
        plan = await _plan(services, asked)
        if asked.stream:
            return await begun_stream(http, _chunks(services, plan))
        return JSONResponse(await unless_closed(http, _answer(services, plan)))

    return router


async def _plan(services: ApiServices, asked: ChatRequest) -> ChatPlan:
    model = await services.chosen(asked.model)
    _refuse_impossible(asked)
    template = await template_for(services, model, asked.tools, asked.messages)
    return await asyncio.to_thread(_planned, asked, model, template)


def _planned(asked: ChatRequest, model: ServedModel, template: ToolTemplate) -> ChatPlan:
    """The plan, made beside the event loop: there may be many messages."""
    use = tool_use(
        [tool.function for tool in asked.tools or ()],
        asked.tool_choice,
        asked.parallel_tool_calls,
        form_grammar(asked.response_format),
        template,
    )
    wanted = Asked(
        engine_messages(asked.messages, use.prompt, template),
        asked.max_completion_tokens or asked.max_tokens,
        asked.stops,
        text_of(asked.prediction.content, "prediction.content") if asked.prediction else "",
        use.grammar,
        (asked.top_logprobs or 0) if asked.logprobs else -1,
        use.native,
        use.control,
    )
    requests, name = engine_requests(asked, model, wanted), f"chatcmpl-{secrets.token_hex(12)}"
    return ChatPlan(name, int(time()), model, use, requests, bool(asked.logprobs), asked.has_usage_chunk)


def _refuse_impossible(asked: ChatRequest) -> None:
    refuse(asked.audio, "audio", "it writes text")
    refuse(set(asked.modalities or ()) - {"text"}, "modalities", "it writes text")
    refuse(asked.functions, "functions", "send tools")
    refuse(asked.function_call not in (None, "none", "auto"), "function_call", "send tool_choice")
    refuse(asked.web_search_options is not None, "web_search_options", "it has no search")
    if asked.top_logprobs and not asked.logprobs:
        raise ApiError("top_logprobs needs logprobs: true.", "top_logprobs")


async def _answer(services: ApiServices, plan: ChatPlan) -> dict[str, Any]:
    """The whole answer, choice by choice."""
    choices, replies = list[dict[str, Any]](), list[EngineReply]()
    for index, request in enumerate(await tokenised(services, plan.requests)):
        written = Written()
        async with engine_reply(services, request, plan.tools.grammar_param()) as reply:
            async for _ in deltas(reply, plan.tools.parser(), written):
                pass
        replies.append(reply)
        choices.append(_choice(index, written, reply, plan.has_logprobs))
    shown = foresight_block(replies[0], plan.requests[0])
    return plan.body(choices, usage=usage(replies), foresight=shown)


def _choice(index: int, written: Written, reply: EngineReply, has_logprobs: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": written.text, "refusal": None}
    if written.calls:
        message |= {"content": written.text or None, "tool_calls": [call.body for call in written.calls]}
    return {
        "index": index,
        "message": message,
        "logprobs": chat_logprobs(reply.count.logprobs) if has_logprobs else None,
        "finish_reason": written.finish_reason(reply),
    }


async def _chunks(services: ApiServices, plan: ChatPlan) -> AsyncGenerator[bytes, None]:
    """The frames, choice by choice."""
    replies = list[EngineReply]()
    for index, request in enumerate(await tokenised(services, plan.requests)):
        async with engine_reply(services, request, plan.tools.grammar_param()) as reply:
            replies.append(reply)
            async for one in _choice_chunks(plan, index, reply):
                yield one
    shown = foresight_block(replies[0], plan.requests[0])
    if plan.has_usage:
        yield plan.chunk([], usage=usage(replies), foresight=shown)
    yield DONE


async def _choice_chunks(plan: ChatPlan, index: int, reply: EngineReply) -> AsyncIterator[bytes]:
    def chunk(delta: dict[str, Any], reason: str | None = None, logprobs: Any = None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return plan.chunk([choice], **({"usage": None} if plan.has_usage else {}))

    yield chunk({"role": "assistant", "content": ""})
    written = Written()
    async for delta, logprobs in deltas(reply, plan.tools.parser(), written):
        yield chunk(_delta(delta), logprobs=chat_logprobs(logprobs) if plan.has_logprobs else None)
    yield chunk({}, written.finish_reason(reply))


def _delta(delta: Delta) -> dict[str, Any]:
    match delta:
        case TextDelta(text):
            return {"content": text}
        case CallDelta(place, call, name):
            named = {"name": name, "arguments": ""}
            return {"tool_calls": [{"index": place, "id": call, "type": "function", "function": named}]}
        case ArgumentsDelta(place, text):
            return {"tool_calls": [{"index": place, "function": {"arguments": text}}]}
