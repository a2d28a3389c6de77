"""Answers POST /v1/chat/completions.

In a stream each choice has chunks with the role, then with reasoning, content and tool calls, then with the finish
reason. If the client asks for the usage, a chunk with the usage and without choices follows. The end is [DONE].
"""

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import APIRouter, Response
from starlette.requests import Request as HttpRequest

from app.api.answers import STREAMED, Choice, Json, Logprobs, answer_head
from app.api.engine_request import ChatPlan, ChatRequest, answer_chat
from app.api.errors import ApiError
from app.api.request_fields import JsonRoute, refuse
from app.api.services import ServedModel, Services
from app.conversation.reply_parsing import ArgumentsDelta, CallDelta, Delta, TextDelta, ThoughtDelta
from app.values.chat_format import ChatFormat
from app.values.logits import LikelyToken


class ChatCompletionPlan(ChatPlan):
    def __init__(self, asked: ChatRequest, model: ServedModel, chat_format: ChatFormat) -> None:
        super().__init__(asked, model, chat_format)
        self._has_logprobs, self._has_usage = bool(asked.logprobs), asked.has_usage_chunk
        head = answer_head("chatcmpl", "chat.completion.chunk", model.id)
        self._head = {**head, "system_fingerprint": "foresight"}

    def begin(self, index: int) -> Iterator[Json]:
        yield self._chunk(index, {"role": "assistant", "content": ""})

    def add(self, choice: Choice, delta: Delta, logprobs: Logprobs) -> Iterator[Json]:
        yield self._chunk(choice.index, _delta(delta), logprobs=self._logprobs(logprobs))

    def end(self, choice: Choice) -> Iterator[Json]:
        yield self._chunk(choice.index, {}, choice.finish_reason)

    def last(self, choices: Sequence[Choice]) -> Iterator[Json]:
        if self._has_usage:
            yield {**self._head, "choices": [], **self.numbers(choices)}

    def whole(self, choices: Sequence[Choice]) -> Json:
        found = [self._choice(choice) for choice in choices]
        return {**self._head, "object": "chat.completion", "choices": found, **self.numbers(choices)}

    def _chunk(self, index: int, delta: Json, reason: str | None = None, logprobs: Any = None) -> Json:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        usage = {"usage": None} if self._has_usage else {}
        return {**self._head, "choices": [choice], **usage}

    def _choice(self, choice: Choice) -> Json:
        text, calls = choice.parsed.text, choice.parsed.calls
        message: Json = {"role": "assistant", "content": text, "refusal": None}
        if thought := choice.parsed.thought:
            message["reasoning_content"] = thought
        if calls:
            called = [_call(call.id, {"name": call.name, "arguments": call.arguments}) for call in calls]
            message |= {"content": text or None, "tool_calls": called}
        return {
            "index": choice.index,
            "message": message,
            "logprobs": self._logprobs(choice.reply.count.logprobs),
            "finish_reason": choice.finish_reason,
        }

    def _logprobs(self, tokens: Logprobs) -> Json | None:
        if not self._has_logprobs:
            return None
        shown = [
            {**_likely(one.chosen), "top_logprobs": [_likely(other) for other in one.likeliest]}
            for one in tokens
        ]
        return {"content": shown, "refusal": None}


router = APIRouter(route_class=JsonRoute)


@router.post("/chat/completions", responses=STREAMED)
async def complete(services: Services, asked: ChatRequest, http: HttpRequest) -> Response:
    """Answer the messages of a chat, as a stream or whole."""
    refuse(set(asked.modalities or ()) - {"text"}, "modalities", "it writes only text")
    refuse(asked.function_call not in (None, "none", "auto"), "function_call", "send tool_choice")
    if asked.top_logprobs and not asked.logprobs:
        raise ApiError("top_logprobs needs logprobs: true.", "top_logprobs")
    return await answer_chat(services, http, asked, ChatCompletionPlan)


def _delta(delta: Delta) -> Json:
    match delta:
        case ThoughtDelta(text):
            return {"reasoning_content": text}
        case TextDelta(text):
            return {"content": text}
        case CallDelta(place, call, name):
            return {"tool_calls": [{"index": place, **_call(call, {"name": name, "arguments": ""})}]}
        case ArgumentsDelta(place, text):
            return {"tool_calls": [{"index": place, "function": {"arguments": text}}]}


def _call(call_id: str, function: Json) -> Json:
    return {"id": call_id, "type": "function", "function": function}


def _likely(one: LikelyToken) -> Json:
    return {"token": one.text, "logprob": max(one.logprob, -9999.0), "bytes": list(one.spelled)}
