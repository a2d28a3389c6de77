"""POST /v1/chat/completions: how a chat is translated into requests of the engine, and the format of its answer.

OpenAI's responses, Anthropic's messages and Ollama's chats are translated into a `ChatRequest`, too.

In a stream each choice has chunks with the role, then with reasoning, content and tool calls, then with the finish
reason. If the client asks for the usage, a chunk with the usage and without choices follows. The end is [DONE].
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import Field
from starlette.requests import Request as HttpRequest

from app.api.answers import STREAMED, Choice, Json, Logprobs, Plan, answer_head
from app.api.chat_messages import MOST_MESSAGES, ChatMessage, engine_messages
from app.api.errors import ApiError
from app.api.request_fields import JsonRoute, Limit, PenaltyFields, Prediction, Some, refuse, text_of
from app.api.services import ApiServices, ServedModel, Services
from app.api.tool_fields import MOST_TOOLS, ResponseFormat, ToolFields, form_grammar, tool_use
from app.conversation.reply_parsing import ArgumentsDelta, CallDelta, Delta, TextDelta, ThoughtDelta
from app.conversation.tool_use import ToolUse
from app.errors import impossible_values
from app.values.chat_format import DEFAULT_THINKING, UNKNOWN_FORMAT, ChatFormat
from app.values.logits import MOST_LOGPROBS, LikelyToken
from app.values.messages import Decoding, Options, Prompt, Request


class ChatRequest(PenaltyFields):
    messages: Some[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    max_tokens: Limit = None
    max_completion_tokens: Limit = None
    logprobs: bool | None = False
    top_logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    response_format: ResponseFormat | None = None
    tools: Annotated[Some[ToolFields], Field(max_length=MOST_TOOLS)] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    prediction: Prediction | None = None
    modalities: Some[str] | None = None
    function_call: Any = None


class ChatPlan(Plan):
    """The engine requests of a chat; a subclass adds the format of its answer."""

    def __init__(
        self, asked: ChatRequest, model: ServedModel, chat_format: ChatFormat, raw: str | None = None
    ) -> None:
        """Translate the request. If `raw` is given, it is the prompt instead of the messages. Raises ApiError."""
        tools = tool_use(
            [tool.function for tool in asked.tools or ()],
            asked.tool_choice,
            asked.parallel_tool_calls,
            form_grammar(asked.response_format, self.form_param),
            chat_format,
        )
        requests = engine_requests(
            asked,
            model,
            engine_messages(asked.messages, tools.prompt, chat_format) if raw is None else raw,
            tools,
            asked.max_tokens if asked.max_completion_tokens is None else asked.max_completion_tokens,
            text_of(asked.prediction.content, "prediction.content") if asked.prediction else "",
            (asked.top_logprobs or 0) if asked.logprobs else -1,
        )
        super().__init__(requests, tools)
        self.asked, self.model = asked, model.id


def engine_requests(
    fields: PenaltyFields,
    model: ServedModel,
    prompt: Prompt,
    tools: ToolUse,
    max_tokens: int | None,
    prediction: str = "",
    top_logprobs: int = -1,
    of_prompt: bool = False,
) -> list[Request]:
    """Make a request for each choice, each with its own seed. Raises ApiError or BadOption.

    If the client sends no seed, the first seed is random."""
    first = fields.seed if fields.seed is not None else secrets.randbits(32)
    decoding = Decoding((fields.foresight and fields.foresight.decoder) or "auto")
    thinking = fields.thinking if fields.thinking != DEFAULT_THINKING else model.thinking
    stop = tuple(filter(None, fields.stop or ()))
    with impossible_values():
        logits = fields.logits(tools.grammar, top_logprobs, of_prompt)
        return [
            Request(
                model.choice,
                prompt,
                Options(fields.sampling(seed), decoding, max_tokens or 0, stop=stop, thinking=thinking),
                logits=logits,
                prediction=prediction,
                tools=tools.native,
                variables=fields.template_variables,
                control=tools.control,
                only_prompt=max_tokens == 0,
            )
            for seed in ((first + place) % 2**63 for place in range(fields.n or 1))
        ]


MakePlan = Callable[[ChatRequest, ServedModel, ChatFormat], Plan]


async def chat_plan(services: ApiServices, asked: ChatRequest, make: MakePlan) -> Plan:
    """Make the plan of a chat's answer on a thread, because translating many messages would block the event loop.

    The model's chat template is read and tried only if the request is about tools, asks for a format, or continues
    a reply that has a thought."""
    model = await services.chosen(asked.model)
    is_about_tools = asked.tools or any(message.is_about_tools for message in asked.messages)
    is_needed = is_about_tools or asked.response_format or asked.messages[-1].thought
    chat_format = await services.chat_format(model) if is_needed else UNKNOWN_FORMAT
    return await asyncio.to_thread(make, asked, model, chat_format)


async def answer_chat(
    services: ApiServices, http: HttpRequest, asked: ChatRequest, make: MakePlan
) -> Response:
    """Answer a chat with the plan that `make` returns, as a stream or whole."""
    plan = await chat_plan(services, asked, make)
    return await plan.answer(services, http, asked.stream)


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
