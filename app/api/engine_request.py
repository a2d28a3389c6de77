"""A chat request and the engine requests that answer it, for all routes that answer chats.

OpenAI's chat completions and responses, Anthropic's messages and Ollama's chats are translated into a ChatRequest.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Response
from pydantic import Field
from starlette.requests import Request as HttpRequest

from app.api.answers import Plan
from app.api.chat_messages import MOST_MESSAGES, ChatMessage, engine_messages
from app.api.request_fields import Limit, PenaltyFields, Prediction, Some, text_of
from app.api.services import ApiServices, ServedModel
from app.api.tool_fields import MOST_TOOLS, ResponseFormat, ToolFields, form_grammar, tool_use
from app.conversation.tool_use import ToolUse
from app.errors import impossible_values
from app.values.chat_format import DEFAULT_THINKING, UNKNOWN_FORMAT, ChatFormat
from app.values.logits import MOST_LOGPROBS
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
