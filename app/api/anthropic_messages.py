"""Anthropic's POST /v1/messages: chats with tools and thoughts, whole or as events."""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field
from starlette.requests import Request as HttpRequest

from app.api.answers import STREAMED, Choice, Json, Logprobs, usage
from app.api.chat_completions import ChatPlan, ChatRequest, answer_chat, chat_plan
from app.api.chat_messages import MOST_MESSAGES, CalledTool, ChatMessage
from app.api.engine_reply import engine_reply, tokenised
from app.api.errors import validated_at
from app.api.request_fields import (
    JsonRoute,
    Limit,
    ReasoningFields,
    SamplingFields,
    Some,
    Stops,
    described,
    text_of,
)
from app.api.services import ServedModel, Services
from app.api.tool_fields import MOST_TOOLS, ResponseFormat, flat_tools
from app.conversation.reply_parsing import ArgumentsDelta, CallDelta, Delta, TextDelta, ThoughtDelta
from app.values.chat_format import ChatFormat

Blocks = Annotated[str | Some[Json], described("a text or a list of blocks")]
STOP_REASONS = {"length": "max_tokens", "tool_calls": "tool_use", "stop": "end_turn"}
CHOICES = {"any": "required", "auto": "auto", "none": "none"}


class Turn(BaseModel):
    role: Literal["user", "assistant", "system"]
    content: Blocks


class Thinking(BaseModel):
    type: str = "enabled"
    budget_tokens: Limit = None


class OutputFields(ReasoningFields):
    format: ResponseFormat | None = None


class MessagesRequest(SamplingFields):
    form = "output_config.format"
    messages: Some[Turn] = Field(min_length=1, max_length=MOST_MESSAGES)
    max_tokens: Limit = None
    system: Blocks | None = None
    stop: Stops = Field(None, alias="stop_sequences")
    tools: list[Json] | None = Field(None, max_length=MOST_TOOLS)
    tool_choice: Json | None = None
    thinking_: Thinking | None = Field(None, alias="thinking")
    output_config: OutputFields | None = None
    output_format: ResponseFormat | None = None
    """The former name of output_config.format, which instructor and LiteLLM send."""


class MessagesPlan(ChatPlan):
    """A message, which is built while the reply is written, and its events."""

    form_param = MessagesRequest.form
    path = "/v1/messages"
    ends_with_done = False

    def __init__(self, asked: ChatRequest, model: ServedModel, chat_format: ChatFormat) -> None:
        super().__init__(asked, model, chat_format)
        self._content: list[Json] = []
        self._is_open = False

    def begin(self, _index: int) -> Iterator[Json]:
        yield {"type": "message_start", "message": self._message({"input_tokens": 0, "output_tokens": 0})}

    def add(self, _choice: Choice, delta: Delta, _logprobs: Logprobs) -> Iterator[Json]:
        match delta:
            case ThoughtDelta(text):
                yield from self._write("thinking", text, signature="")
            case TextDelta(text):
                yield from self._write("text", text)
            case CallDelta(_, call, name):
                yield from self._open({"type": "tool_use", "id": call, "name": name, "input": {}})
            case ArgumentsDelta(_, text):
                yield self._delta({"type": "input_json_delta", "partial_json": text})

    def end(self, choice: Choice) -> Iterator[Json]:
        called = (block for block in self._content if block["type"] == "tool_use")
        for block, call in zip(called, choice.parsed.calls, strict=True):
            block["input"] = call.arguments_object
        yield from self._close()
        yield {"type": "message_delta", "delta": self._ended(choice), "usage": _usage(choice)}
        yield {"type": "message_stop"}

    def whole(self, choices: Sequence[Choice]) -> Json:
        return {**self._message(_usage(choices[0])), **self._ended(choices[0])}

    def _message(self, used: Json) -> Json:
        return {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": self._content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": used,
        }

    def _ended(self, choice: Choice) -> Json:
        """Return why the message ended. The stop sequence is named only if the request has just one."""
        if choice.reply.finished.reason != "stop_string":
            return {"stop_reason": STOP_REASONS[choice.finish_reason], "stop_sequence": None}
        stops = self.requests[0].options.stop
        return {"stop_reason": "stop_sequence", "stop_sequence": stops[0] if len(stops) == 1 else None}

    def _write(self, kind: str, text: str, **more: str) -> Iterator[Json]:
        """Add text to the block that is being written, or to a new block if the current one has another type."""
        if not self._is_open or self._content[-1]["type"] != kind:
            yield from self._open({"type": kind, kind: "", **more})
        self._content[-1][kind] += text
        yield self._delta({"type": f"{kind}_delta", kind: text})

    def _open(self, block: Json) -> Iterator[Json]:
        yield from self._close()
        self._content.append(block)
        self._is_open = True
        yield {"type": "content_block_start", "index": len(self._content) - 1, "content_block": block}

    def _close(self) -> Iterator[Json]:
        if self._is_open:
            yield {"type": "content_block_stop", "index": len(self._content) - 1}
        self._is_open = False

    def _delta(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "index": len(self._content) - 1, "delta": delta}


router = APIRouter(route_class=JsonRoute)


@router.post("/messages", responses=STREAMED)
async def answer(services: Services, asked: MessagesRequest, http: HttpRequest) -> Response:
    """Answer the messages of a chat, as a stream of events or whole."""
    return await answer_chat(services, http, await asyncio.to_thread(_chat, asked), MessagesPlan)


@router.post("/messages/count_tokens")
async def count_tokens(services: Services, asked: MessagesRequest) -> Json:
    """Count the tokens of the prompt.

    If the model is not loaded, loads it and prefills the prompt, because only the model's tokenizer can count."""
    chat = await asyncio.to_thread(_chat, asked.model_copy(update={"max_tokens": 0}))
    plan = await chat_plan(services, chat, MessagesPlan)
    [request] = await tokenised(services, plan.requests)
    if request.tokens:
        return {"input_tokens": len(request.tokens.prompt)}
    async with engine_reply(services, request) as reply:
        async for _ in reply.texts():
            pass
    return {"input_tokens": reply.count.statistics.prompt_tokens}


def _chat(asked: MessagesRequest) -> ChatRequest:
    system = text_of(asked.system, "system")
    messages = [ChatMessage(role="system", content=system)] if system else []
    for place, turn in enumerate(asked.messages):
        with validated_at(f"messages[{place}].content"):
            messages += _messages(turn, f"messages[{place}].content")
    choice, thinking, output = asked.tool_choice or {}, asked.thinking_, asked.output_config or OutputFields()
    chosen, is_single = choice.get("type", "auto"), choice.get("disable_parallel_tool_use")
    fields = dict(asked) | {
        "messages": messages,
        "reasoning_effort": output.effort or asked.reasoning_effort,
        "response_format": output.format or asked.output_format,
        "tools": flat_tools(asked.tools, (None, "custom"), "input_schema"),
        "tool_choice": {"name": choice.get("name")} if chosen == "tool" else CHOICES.get(chosen, chosen),
        "parallel_tool_calls": is_single is False or None,
    }
    if thinking:
        fields |= {"enable_thinking": thinking.type != "disabled", "thinking_budget": thinking.budget_tokens}
    return ChatRequest.model_construct(**fields)


def _messages(turn: Turn, param: str) -> Iterator[ChatMessage]:
    """Yield the tool results of a turn, then one message with the turn's text, thought and calls."""
    blocks = [{"type": "text", "text": turn.content}] if isinstance(turn.content, str) else turn.content
    texts, calls, thoughts = list[str](), list[CalledTool](), list[str]()
    for place, block in enumerate(blocks):
        match block.get("type"):
            case "tool_result":
                text = text_of(block.get("content"), f"{param}[{place}].content")
                yield ChatMessage(role="tool", content=text, tool_call_id=block.get("tool_use_id"))
            case "tool_use":
                function = {"name": block.get("name"), "arguments": block.get("input")}
                calls.append(CalledTool.model_validate({"id": block.get("id"), "function": function}))
            case "thinking" | "redacted_thinking":
                thoughts.append(str(block.get("thinking", "")))
            case _:
                texts.append(text_of(block, f"{param}[{place}]"))
    if texts or calls or thoughts:
        thought = "\n".join(filter(None, thoughts))
        yield ChatMessage(
            role=turn.role, content="\n".join(texts), tool_calls=calls or None, reasoning_content=thought
        )


def _usage(choice: Choice) -> Json:
    """Return the token usage under Anthropic's names; `input_tokens` does not include cached tokens."""
    numbers = usage([choice])
    cached = numbers["prompt_tokens_details"]["cached_tokens"]
    return {
        "input_tokens": numbers["prompt_tokens"] - cached,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": numbers["completion_tokens"],
    }
