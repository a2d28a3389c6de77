"""Ollama's routes below /api, for programs that speak no other form. Streams are lines of JSON."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import Field, ValidationError
from starlette.requests import Request as HttpRequest

from app.api.answers import Choice, Json, Logprobs
from app.api.chat_messages import ChatMessage
from app.api.chat_plan import ChatPlan, ChatRequest, answer_chat
from app.api.embeddings import EmbeddingsRequest, embedded
from app.api.errors import invalid_part
from app.api.ollama_models import ModelName
from app.api.reply_parsing import Delta, Parser, TextDelta, TextParser, ThoughtDelta
from app.api.request_fields import JsonRoute, Some, refuse
from app.api.services import ApiServices, ServedModel
from app.values.chat_format import ChatFormat

OPTIONS = {"num_predict": "max_tokens", "repeat_penalty": "repetition_penalty"}
"""Names of options that differ from the names of OpenAI's API, or of other servers."""
SAME_OPTIONS = (
    "temperature", "top_k", "top_p", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty",
)  # fmt: skip
SECOND = 1e9
"""Durations are in nanoseconds."""


class OllamaMessage(ChatMessage):
    thinking: str | None = None
    images: Any = None

    @property
    def thought(self) -> str:
        """The thought before the assistant's answer."""
        return self.thinking or ""


class OllamaFields(ModelName):
    stream: bool | None = True
    format: str | Json | None = None
    think: bool | str | None = None
    options: Json | None = None


class OllamaChat(OllamaFields):
    messages: Some[OllamaMessage] = Field(default_factory=list)
    tools: list[Json] | None = None


class OllamaGenerate(OllamaFields):
    prompt: str = ""
    system: str = ""
    raw: bool = False
    suffix: str | None = None
    images: Any = None


class OllamaEmbed(ModelName):
    input: str | list[str] = ""
    prompt: str = ""


class OllamaPlan(ChatPlan):
    """The lines of a reply in Ollama's form: its thought and text as they come, then its calls, then numbers."""

    path = "/api/"
    media_type = "application/x-ndjson"
    comment = b""
    ends_with_done = False

    def add(self, _choice: Choice, delta: Delta, _logprobs: Logprobs) -> Iterator[Json]:
        match delta:
            case ThoughtDelta(text):
                yield self._line(thought=text)
            case TextDelta(text):
                yield self._line(text)

    def end(self, choice: Choice) -> Iterator[Json]:
        """Return a line of the calls if there are some, then the last line."""
        if choice.parsed.calls:
            yield self._line(calls=_calls(choice))
        yield {**self._line(), **_numbers(choice)}

    def whole(self, choices: Sequence[Choice]) -> Json:
        [choice] = choices
        parsed = choice.parsed
        return {**self._line(parsed.text, parsed.thought, _calls(choice)), **_numbers(choice)}

    def frame(self, event: Json) -> bytes:
        return json.dumps(event).encode() + b"\n"

    def _line(self, text: str = "", thought: str = "", calls: Sequence[Json] = ()) -> Json:
        more = ({"thinking": thought} if thought else {}) | ({"tool_calls": calls} if calls else {})
        return {**_head(self.model), **self.content(text, more), "done": False}

    def content(self, text: str, more: Json) -> Json:
        """Return a part of the reply under the names of this route."""
        return {"message": {"role": "assistant", "content": text, **more}}


class GeneratePlan(OllamaPlan):
    def __init__(
        self, asked: OllamaGenerate, chat: ChatRequest, model: ServedModel, chat_format: ChatFormat
    ) -> None:
        super().__init__(chat, model, chat_format)
        self._is_raw = asked.raw
        if asked.raw:
            self.requests = [replace(one, prompt=asked.prompt) for one in self.requests]

    def parser(self) -> Parser:
        """Make the parser of a reply's text; after a raw prompt all of it is the answer."""
        return TextParser() if self._is_raw else super().parser()

    def content(self, text: str, more: Json) -> Json:
        return {"response": text, **more}


def ollama_router(services: ApiServices) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)

    async def answer(
        asked: OllamaFields, chat: ChatRequest | None, http: HttpRequest, make: Any, empty: Json
    ) -> Response:
        """Answer a chat; without one, load the model, as Ollama does."""
        if chat:
            return await answer_chat(services, http, chat, make)
        model = await services.chosen(asked.id)
        services.engine.load(model.choice)
        return JSONResponse({**_head(model.id), **empty, "done": True, "done_reason": "load"})

    @router.post("/chat")
    async def chat(asked: OllamaChat, http: HttpRequest) -> Response:
        """Answer the messages of a chat, by default as a stream."""
        messages: Sequence[ChatMessage] = asked.messages
        refuse(any(one.images for one in asked.messages), "images", "it reads text")
        made = await asyncio.to_thread(_chat, asked, messages, asked.tools) if messages else None
        return await answer(asked, made, http, OllamaPlan, {"message": {"role": "assistant", "content": ""}})

    @router.post("/generate")
    async def generate(asked: OllamaGenerate, http: HttpRequest) -> Response:
        """Answer a prompt, by default as a stream; with `raw` continue it without the chat template."""
        refuse(asked.images, "images", "it reads text")
        refuse(asked.suffix, "suffix", "it continues a text only at its end")
        messages = [ChatMessage(role="system", content=asked.system)] if asked.system else []
        messages.append(ChatMessage(role="user", content=asked.prompt))
        made = await asyncio.to_thread(_chat, asked, messages) if asked.prompt else None
        return await answer(asked, made, http, partial(GeneratePlan, asked), {"response": ""})

    @router.post("/embed")
    async def embed(asked: OllamaEmbed) -> Json:
        """Embed texts as vectors of length one."""
        vectors, name, tokens = await embedded(
            services, EmbeddingsRequest.model_validate({"input": asked.input})
        )
        return {"model": name, "embeddings": vectors.tolist(), "prompt_eval_count": tokens}

    @router.post("/embeddings")
    async def embed_one(asked: OllamaEmbed) -> Json:
        """Embed a text; the older form of `embed`."""
        vectors, _, _ = await embedded(services, EmbeddingsRequest.model_validate({"input": asked.prompt}))
        return {"embedding": vectors[0].tolist()}

    return router


def _chat(
    asked: OllamaFields, messages: Sequence[ChatMessage], tools: Sequence[Json] | None = None
) -> ChatRequest:
    """Translate a request into that of a chat. Raises ApiError."""
    options = asked.options or {}
    fields = {name: options.get(name) for name in SAME_OPTIONS}
    fields |= {name: options.get(theirs) for theirs, name in OPTIONS.items()}
    if fields["max_tokens"] == -2:  # until the context is full, which is meant by no limit, too
        fields["max_tokens"] = None
    if asked.format:
        is_any = asked.format == "json"
        fields["response_format"] = {"type": "json_object"} | ({} if is_any else {"schema": asked.format})
    thinking = "reasoning_effort" if isinstance(asked.think, str) else "enable_thinking"
    known = {"model": asked.id, "stream": asked.stream, "tools": tools, thinking: asked.think}
    try:
        return ChatRequest.model_validate({**fields, **known, "messages": messages})
    except ValidationError as error:
        raise invalid_part(error, "body") from error


def _head(model: str) -> Json:
    return {"model": model, "created_at": datetime.now(UTC).isoformat()}


def _calls(choice: Choice) -> list[Json]:
    return [
        {"id": call.id, "function": {"index": place, "name": call.name, "arguments": call.arguments_object}}
        for place, call in enumerate(choice.parsed.calls)
    ]


def _numbers(choice: Choice) -> Json:
    count = choice.reply.count
    numbers = count.statistics
    reading, writing = (int(one * SECOND) for one in (numbers.time_to_first_token, numbers.seconds))
    return {
        "done": True,
        "done_reason": choice.reply.finish_reason,
        "total_duration": reading + writing,
        "load_duration": 0,
        "prompt_eval_count": numbers.prompt_tokens,
        "prompt_eval_duration": reading,
        "eval_count": len(count.token_ids),
        "eval_duration": writing,
    }
