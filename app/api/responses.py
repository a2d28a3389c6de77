"""POST /v1/responses, without state: text and function calls, whole or as events."""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from time import time
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field
from starlette.requests import Request as HttpRequest

from app.api.answers import STREAMED, Choice, Json, Logprobs, foresight_block, usage
from app.api.chat_completions import ChatPlan, ChatRequest, answer_chat
from app.api.chat_messages import MOST_MESSAGES, CalledFunction, CalledTool, ChatMessage
from app.api.errors import ApiError, validated_at
from app.api.request_fields import JsonRoute, Limit, SamplingFields, Some, described, refuse
from app.api.services import ServedModel, Services
from app.api.tool_fields import MOST_TOOLS, ResponseFormat, flat_tools
from app.conversation.reply_parsing import ArgumentsDelta, CallDelta, Delta, TextDelta, ThoughtDelta
from app.errors import AppError
from app.values.chat_format import ChatFormat

EMPTY = (
    "completed_at", "error", "incomplete_details", "previous_response_id", "max_tool_calls", "prompt_cache_key",
    "safety_identifier", "user", "usage",
)  # fmt: skip
"""Fields that clients expect in a response. They are null at its beginning, and some of them stay null."""


class TextFields(BaseModel):
    format: ResponseFormat | None = None


class ResponseRequest(SamplingFields):
    form = "text.format"
    input: Annotated[
        str | Annotated[Some[Json], Field(max_length=MOST_MESSAGES)],
        Field(min_length=1),
        described(f"a text, or a list of up to {MOST_MESSAGES:,} items, and not empty"),
    ]
    instructions: str | None = None
    max_output_tokens: Limit = None
    text: TextFields | None = None
    tools: Annotated[Some[Json], Field(max_length=MOST_TOOLS)] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    prompt: Any = None
    metadata: Json | None = None


class ResponsePlan(ChatPlan):
    """A response, which is built while the reply is written, and its events."""

    form_param = ResponseRequest.form
    ends_with_done = False

    def __init__(
        self, asked: ResponseRequest, chat: ChatRequest, model: ServedModel, chat_format: ChatFormat
    ) -> None:
        super().__init__(chat, model, chat_format)
        self._response: Json = {
            "id": f"resp_{secrets.token_hex(16)}",
            "object": "response",
            "created_at": int(time()),
            "status": "in_progress", "background": False, "output": [],
            "reasoning": {"effort": asked.reasoning and asked.reasoning.effort, "summary": None},
            "service_tier": "default", "store": False, "truncation": "disabled", "presence_penalty": 0.0,
            "frequency_penalty": 0.0, "top_logprobs": 0,
            **dict.fromkeys(EMPTY),
            **_echoed(asked, model.id),
        }  # fmt: skip
        self._number = 0
        self._is_open = False

    def begin(self, _index: int) -> Iterator[Json]:
        yield self._event("response.created", response=self._response)
        yield self._event("response.in_progress", response=self._response)

    def add(self, _choice: Choice, delta: Delta, _logprobs: Logprobs) -> Iterator[Json]:
        match delta:
            case ThoughtDelta(text):
                yield from self._write("reasoning", text)
            case TextDelta(text):
                yield from self._write("message", text)
            case CallDelta(_, call, name):
                item = {"id": f"fc_{call}", "type": "function_call", "call_id": call}
                yield from self._open({**item, "name": name, "arguments": ""})
            case ArgumentsDelta(_, text):
                self._newest["arguments"] += text
                yield self._of_item("response.function_call_arguments.delta", delta=text)

    def end(self, choice: Choice) -> Iterator[Json]:
        is_cut = choice.finish_reason == "length"
        status = "incomplete" if is_cut else "completed"
        if not self._response["output"]:
            yield from self._begin("message")
        yield from self._close(status)
        self._response |= {
            "status": status,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "completed_at": None if is_cut else int(time()),
            "usage": _usage(choice),
            "foresight": foresight_block(choice.reply, self.requests[0]),
        }
        yield self._event(f"response.{status}", response=self._response)

    def failed(self, error: AppError) -> Json:
        self._response |= {"status": "failed", "error": {"code": "server_error", "message": str(error)}}
        return self._event("response.failed", response=self._response)

    def whole(self, _choices: Sequence[Choice]) -> Json:
        return self._response

    @property
    def _newest(self) -> Json:
        newest: Json = self._response["output"][-1]
        return newest

    def _write(self, kind: str, text: str) -> Iterator[Json]:
        """Add text to the item that is being written, or to a new item if the current one has another type."""
        if not self._is_open or self._newest["type"] != kind:
            yield from self._begin(kind)
        part = self._newest["content"][0]
        part["text"] += text
        logprobs: Json = {"logprobs": []} if "logprobs" in part else {}
        yield self._of_part(f"response.{part['type']}.delta", delta=text, **logprobs)

    def _begin(self, kind: str) -> Iterator[Json]:
        number = secrets.token_hex(16)
        if kind == "reasoning":
            content = [{"type": "reasoning_text", "text": ""}]
            yield from self._open({"id": f"rs_{number}", "type": kind, "summary": [], "content": content})
        else:
            item = {"id": f"msg_{number}", "type": kind, "role": "assistant", "content": []}
            yield from self._open(item)
            part: Json = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            self._newest["content"].append(part)
            yield self._of_part("response.content_part.added", part=part)

    def _open(self, item: Json) -> Iterator[Json]:
        yield from self._close("completed")
        self._response["output"].append({**item, "status": "in_progress"})
        self._is_open = True
        yield self._of_place("response.output_item.added", item=self._newest)

    def _close(self, status: str) -> Iterator[Json]:
        """Close the output item that is being written, if there is one, and yield its last events."""
        if not self._is_open:
            return
        self._is_open = False
        item = self._newest
        if item["type"] == "message":
            part = item["content"][0]
            yield self._of_part("response.output_text.done", text=part["text"], logprobs=[])
            yield self._of_part("response.content_part.done", part=part)
        elif item["type"] == "reasoning":
            yield self._of_part("response.reasoning_text.done", text=item["content"][0]["text"])
        else:
            yield self._of_item(
                "response.function_call_arguments.done", arguments=item["arguments"], name=item["name"]
            )
        item["status"] = status
        yield self._of_place("response.output_item.done", item=item)

    def _of_part(self, kind: str, **values: Any) -> Json:
        return self._of_item(kind, content_index=0, **values)

    def _of_item(self, kind: str, **values: Any) -> Json:
        return self._of_place(kind, item_id=self._newest["id"], **values)

    def _of_place(self, kind: str, **values: Any) -> Json:
        return self._event(kind, output_index=len(self._response["output"]) - 1, **values)

    def _event(self, kind: str, **values: Any) -> Json:
        event = {"type": kind, "sequence_number": self._number, **values}
        self._number += 1
        return event


router = APIRouter(route_class=JsonRoute)


@router.post("/responses", responses=STREAMED)
async def respond(services: Services, asked: ResponseRequest, http: HttpRequest) -> Response:
    """Answer the input, whole or as a stream of events."""
    chat = await asyncio.to_thread(_chat, asked)
    return await answer_chat(services, http, chat, partial(ResponsePlan, asked))


def _chat(asked: ResponseRequest) -> ChatRequest:
    refuse(asked.prompt, "prompt", "it keeps no prompts; send instructions and input")
    fields = dict(asked) | {
        "messages": _messages(asked),
        "max_tokens": asked.max_output_tokens,
        "response_format": asked.text and asked.text.format,
        "tools": flat_tools(asked.tools, ("function",), "parameters"),
    }
    return ChatRequest.model_construct(**fields)


def _messages(asked: ResponseRequest) -> list[ChatMessage]:
    given = [{"role": "user", "content": asked.input}] if isinstance(asked.input, str) else asked.input
    found = [ChatMessage(role="system", content=asked.instructions)] if asked.instructions else []
    for place, item in enumerate(given):
        with validated_at(f"input[{place}]"):
            found.append(_message(item, f"input[{place}]"))
    return found


def _message(item: Json, param: str) -> ChatMessage:
    match item.get("type", "message"):
        case "message":
            return ChatMessage.model_validate(item)
        case "function_call":
            called = CalledFunction.model_validate(item)
            call = CalledTool(id=item.get("call_id"), function=called)
            return ChatMessage(role="assistant", tool_calls=[call])
        case "function_call_output":
            return ChatMessage(role="tool", content=item.get("output"), tool_call_id=item.get("call_id"))
        case "reasoning":
            parts = item.get("content") or item.get("summary") or []
            texts = [part.get("text") for part in parts if isinstance(part, dict)]
            thought = "\n".join(text for text in texts if isinstance(text, str))
            return ChatMessage(role="assistant", reasoning_content=thought)
        case other:
            raise ApiError(f"{param}: Foresight does not know items of type {other!r}.", f"{param}.type")


def _echoed(asked: ResponseRequest, model: str) -> Json:
    form = (asked.text and asked.text.format) or ResponseFormat.model_validate({"type": "text"})
    return {
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "metadata": asked.metadata or {},
        "model": model,
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "temperature": 1.0 if asked.temperature is None else asked.temperature,
        "text": {"format": form.model_dump(by_alias=True, exclude_unset=True)},
        "tool_choice": asked.tool_choice or "auto",
        "tools": asked.tools or [],
        "top_p": 1.0 if asked.top_p is None else asked.top_p,
    }


def _usage(choice: Choice) -> Json:
    numbers = usage([choice])
    details = numbers["completion_tokens_details"]
    del details["audio_tokens"]
    cached = numbers["prompt_tokens_details"]["cached_tokens"]
    return {
        "input_tokens": numbers["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": numbers["completion_tokens"],
        "output_tokens_details": details,
        "total_tokens": numbers["total_tokens"],
    }
