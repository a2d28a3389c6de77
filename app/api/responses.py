"""POST /v1/responses, without state: text and function calls, whole or as events."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request as HttpRequest

from app.api.body import JsonRoute, Some
from app.api.chat_messages import (
    MOST_MESSAGES,
    CalledFunction,
    CalledTool,
    ChatMessage,
    engine_messages,
    template_for,
)
from app.api.engine_reply import engine_reply, tokenised, unless_closed
from app.api.errors import ApiError, invalid_part
from app.api.event_stream import STREAMED, begun_stream
from app.api.response_events import ResponseEvents
from app.api.sampling_fields import Asked, Positive, SamplingFields, engine_requests, refuse
from app.api.services import ApiServices, ServedModel
from app.api.tool_syntax import ToolTemplate
from app.api.tools import MOST_TOOLS, FunctionFields, ResponseFormat, ToolUse, form_grammar, tool_use
from app.api.written import Written, deltas
from app.errors import AppError
from app.values.messages import Request


class TextFields(BaseModel):
    """The form of the text."""

    model_config = ConfigDict(extra="ignore")

    format: dict[str, Any] | None = None


class ResponseRequest(SamplingFields):
    """The body."""

    input: str | Annotated[Some[dict[str, Any]], Field(max_length=MOST_MESSAGES)] = Field(min_length=1)
    instructions: str | None = None
    max_output_tokens: Positive | None = None
    text: TextFields | None = None
    tools: Annotated[Some[dict[str, Any]], Field(max_length=MOST_TOOLS)] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    background: bool | None = False
    prompt: Any = None
    metadata: dict[str, Any] | None = None


def responses_router(services: ApiServices) -> APIRouter:
    """The route."""
    router = APIRouter(route_class=JsonRoute)

    @router.post("/responses", responses=STREAMED)
    async def respond(asked: ResponseRequest, http: HttpRequest) -> Response:
        """Answer, as a whole or as events."""
        model = await services.chosen(asked.model)
        messages = await asyncio.to_thread(_messages, asked)
        template = await template_for(services, model, asked.tools, messages)
        request, use = await asyncio.to_thread(_planned, asked, model, messages, template)
        events = ResponseEvents(_echoed(asked, model.id))
        if asked.stream:
            return await begun_stream(http, _frames(services, request, use, events))
        await unless_closed(http, _write(services, request, use, events))
        return JSONResponse(events.response)

    return router


def _planned(
    asked: ResponseRequest, model: ServedModel, messages: list[ChatMessage], template: ToolTemplate
) -> tuple[Request, ToolUse]:
    use = _tools(asked, template)
    wanted = Asked(
        engine_messages(messages, use.prompt, template),
        asked.max_output_tokens,
        grammar=use.grammar,
        tools=use.native,
        control=use.control,
    )
    (request,) = engine_requests(asked, model, wanted)
    return request, use


async def _write(services: ApiServices, request: Request, use: ToolUse, events: ResponseEvents) -> None:
    async for _ in _frames(services, request, use, events):
        pass
    if error := events.response["error"]:
        raise ApiError(error["message"], status=500)


async def _frames(
    services: ApiServices, request: Request, use: ToolUse, events: ResponseEvents
) -> AsyncGenerator[bytes, None]:
    (ready,) = await tokenised(services, [request])
    async with engine_reply(services, ready, use.grammar_param("text.format")) as reply:
        for one in events.begin():
            yield one
        written = Written()
        try:
            async for delta, _ in deltas(reply, use.parser(), written):
                for one in events.add(delta):
                    yield one
        except AppError as error:
            yield events.fail(str(error))
            return
    for one in events.end(reply, request):
        yield one


def _tools(asked: ResponseRequest, template: ToolTemplate) -> ToolUse:
    refuse(
        asked.previous_response_id, "previous_response_id", "it keeps no responses; send all items as input"
    )
    refuse(asked.conversation, "conversation", "it keeps no conversations; send all items as input")
    refuse(asked.background, "background", "ask with stream")
    refuse(asked.prompt, "prompt", "it keeps no prompts; send instructions and input")
    tools = [_function(tool, place) for place, tool in enumerate(asked.tools or ())]
    given = (asked.text and asked.text.format) or {"type": "text"}
    try:
        form = ResponseFormat.model_validate({**given, "json_schema": given})
    except ValidationError as error:
        raise invalid_part(error, "text.format") from error
    grammar = form_grammar(form, "text.format")
    return tool_use(tools, asked.tool_choice, asked.parallel_tool_calls, grammar, template)


def _function(tool: dict[str, Any], place: int) -> FunctionFields:
    param = f"tools[{place}]"
    if tool.get("type") != "function":
        raise ApiError(
            f"{param}: Foresight calls functions alone, not {tool.get('type')!r}.", f"{param}.type"
        )
    try:
        return FunctionFields.model_validate(tool)
    except ValidationError as error:
        raise invalid_part(error, param) from error


def _messages(asked: ResponseRequest) -> list[ChatMessage]:
    """The items as messages of a chat."""
    given = [{"role": "user", "content": asked.input}] if isinstance(asked.input, str) else asked.input
    found = [ChatMessage(role="system", content=asked.instructions)] if asked.instructions else []
    for place, item in enumerate(given):
        try:
            found += _message(item, f"input[{place}]")
        except ValidationError as error:
            raise invalid_part(error, f"input[{place}]") from error
    return found


def _message(item: dict[str, Any], param: str) -> list[ChatMessage]:
    match item.get("type", "message"):
        case "message":
            return [ChatMessage.model_validate(item)]
        case "function_call":
            called = CalledFunction.model_validate(item)
            call = CalledTool(id=_text(item, "call_id"), function=called)
            return [ChatMessage(role="assistant", tool_calls=[call])]
        case "function_call_output":
            call_id = _text(item, "call_id")
            return [ChatMessage(role="tool", content=item.get("output"), tool_call_id=call_id)]
        case "reasoning":
            return []
        case other:
            raise ApiError(f"{param}: Foresight does not know items of type {other!r}.", f"{param}.type")


def _text(item: dict[str, Any], key: str) -> str | None:
    value = item.get(key)
    return value if isinstance(value, str) else None


def _echoed(asked: ResponseRequest, model: str) -> dict[str, Any]:
    """What a response repeats of its request."""
    return {
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "metadata": asked.metadata or {},
        "model": model,
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "temperature": 1.0 if asked.temperature is None else asked.temperature,
        "text": {"format": (asked.text and asked.text.format) or {"type": "text"}},
        "tool_choice": asked.tool_choice or "auto",
        "tools": asked.tools or [],
        "top_p": 1.0 if asked.top_p is None else asked.top_p,
    }
