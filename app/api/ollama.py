"""Ollama's routes below /api, for programs that can use only Ollama's API. Streams are lines of JSON."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.requests import Request as HttpRequest

from app.api.answers import Choice, Json, Logprobs
from app.api.chat_completions import ChatPlan, ChatRequest, answer_chat
from app.api.chat_messages import ChatMessage
from app.api.embeddings import EmbeddingsRequest, embedded
from app.api.errors import validated_at
from app.api.request_fields import Body, JsonRoute, Some, described, refuse
from app.api.services import ApiServices, ServedModel, Services
from app.conversation.reply_parsing import Delta, TextDelta, ThoughtDelta
from app.values.gguf_header import packing_of

VERSION = "0.13.0"
"""The version of Ollama that these routes follow and report. Some programs refuse older versions."""
OPTIONS = {
    **{name: name for name in ("temperature", "top_k", "top_p", "min_p", "seed", "stop")},
    **{name: name for name in ("presence_penalty", "frequency_penalty")},
    "num_predict": "max_tokens",
    "repeat_penalty": "repetition_penalty",
}
"""Ollama's options that are used, and their names in a chat request."""
THEIR_NAMES = {name: f"options.{theirs}" for theirs, name in OPTIONS.items()} | {"reasoning_effort": "think"}
SECOND = 1e9
"""A second in Ollama's durations, which are in nanoseconds."""


class OllamaMessage(ChatMessage):
    reasoning_content: str | None = Field(None, validation_alias="thinking")
    images: Any = None


class OllamaRequest(Body):
    """The fields of chats and of prompts. The tag `:latest` of a model's name is ignored."""

    form = "format"
    model: str = ""
    name: str = ""
    messages: Some[OllamaMessage] = Field(default_factory=list)
    tools: list[Json] | None = None
    stream: bool | None = True
    format: Annotated[Literal["", "json"] | Json | None, described('"json" or a JSON Schema')] = None
    think: bool | str | None = None
    options: Json | None = None
    prompt: str = ""
    system: str = ""
    raw: bool = False

    @property
    def id(self) -> str:
        return (self.model or self.name).removesuffix(":latest")


class OllamaPlan(ChatPlan):
    """The lines of a reply in Ollama's format: thought and text as they come, then calls, then statistics."""

    form_param = OllamaRequest.form
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
    def content(self, text: str, more: Json) -> Json:
        return {"response": text, **more}


router = APIRouter(route_class=JsonRoute)


@router.post("/chat")
async def chat(services: Services, asked: OllamaRequest, http: HttpRequest) -> Response:
    """Answer the messages of a chat, by default as a stream."""
    if not asked.messages:
        return await _load(services, asked, {"message": {"role": "assistant", "content": ""}})
    refuse(any(message.images for message in asked.messages), "images", "it reads only text")
    chat = await asyncio.to_thread(_chat, asked, asked.messages)
    return await answer_chat(services, http, chat, OllamaPlan)


@router.post("/generate")
async def generate(services: Services, asked: OllamaRequest, http: HttpRequest) -> Response:
    """Answer a prompt, by default as a stream; with `raw` continue it without the chat template."""
    if not asked.prompt:
        return await _load(services, asked, {"response": ""})
    system = ChatMessage(role="system", content=asked.system)
    chat = _chat(asked, [system, ChatMessage(role="user", content=asked.prompt)])
    return await answer_chat(
        services, http, chat, partial(GeneratePlan, raw=asked.prompt if asked.raw else None)
    )


async def _load(services: ApiServices, asked: OllamaRequest, empty: Json) -> Response:
    """Ask the engine to load the model, because that is what a request without a prompt means in Ollama's API."""
    model = await services.chosen(asked.id)
    services.engine.load(model.choice)
    return JSONResponse({**_head(model.id), **empty, "done": True, "done_reason": "load"})


@router.post("/embed")
async def embed(services: Services, asked: EmbeddingsRequest) -> Json:
    """Embed the given texts as unit vectors."""
    vectors, name, tokens = await embedded(services, asked)
    return {"model": name, "embeddings": vectors.tolist(), "prompt_eval_count": tokens}


@router.api_route("/version", methods=["GET", "HEAD"])
def version() -> Json:
    """Return the version of Ollama that these routes follow."""
    return {"version": VERSION}


@router.api_route("/tags", methods=["GET", "HEAD"])
def tags(services: Services) -> Json:
    """List the models on this machine."""
    return {"models": [_described(services, model) for model in services.models()]}


@router.post("/show")
async def show(services: Services, asked: OllamaRequest) -> Json:
    """Describe a model, its template and its capabilities."""
    model = await services.chosen(asked.id)
    described, info = _described(services, model), services.engine.status().model
    thinks = len((await services.chat_format(model)).modes) > 1
    family = described["details"]["family"]
    context = {f"{family}.context_length": info.context} if info and family else {}
    return {
        **described,
        "template": services.template(model.choice),
        "model_info": {"general.architecture": family, **context},
        "capabilities": ["completion", "tools", *["thinking"] * thinks],
    }


def _chat(asked: OllamaRequest, messages: Sequence[ChatMessage]) -> ChatRequest:
    options = asked.options or {}
    fields = {name: options[theirs] for theirs, name in OPTIONS.items() if theirs in options}
    if asked.format:
        schema = {} if asked.format == "json" else {"schema": asked.format}
        fields["response_format"] = {"type": "json_object", **schema}
    thinking = "reasoning_effort" if isinstance(asked.think, str) else "enable_thinking"
    known = {"model": asked.id, "stream": asked.stream, "tools": asked.tools, thinking: asked.think}
    with validated_at("body", THEIR_NAMES):
        return ChatRequest.model_validate({**fields, **known, "messages": messages})


def _head(model: str) -> Json:
    return {"model": model, "created_at": datetime.now(UTC).isoformat()}


def _calls(choice: Choice) -> list[Json]:
    return [
        {"id": call.id, "function": {"index": place, "name": call.name, "arguments": call.arguments_object}}
        for place, call in enumerate(choice.parsed.calls)
    ]


def _numbers(choice: Choice) -> Json:
    count = choice.reply.count
    reading, writing = count.statistics.time_to_first_token, count.statistics.seconds
    return {
        "done": True,
        "done_reason": choice.reply.finish_reason,
        "total_duration": int((reading + writing) * SECOND),
        "load_duration": 0,
        "prompt_eval_count": count.statistics.prompt_tokens,
        "prompt_eval_duration": int(reading * SECOND),
        "eval_count": len(count.token_ids),
        "eval_duration": int(writing * SECOND),
    }


def _described(services: ApiServices, model: ServedModel) -> Json:
    """Describe a model. If the model is not loaded, only its name and its file format are known."""
    info = services.engine.status().model if model.id == services.current().id else None
    family = info.architecture if info else ""
    is_gguf = any(one.is_gguf for one in (model, *services.installed()) if one.id == model.id)
    precision = info.dtype if info and info.quantisation == "none" else info.quantisation if info else ""
    return {
        "name": model.id,
        "model": model.id,
        "modified_at": datetime.fromtimestamp(0, UTC).isoformat(),
        "size": 0,
        "digest": sha256(model.id.encode()).hexdigest(),
        "details": {
            "format": "gguf" if is_gguf else "safetensors",
            "family": family,
            "families": [family] if family else [],
            "parameter_size": f"{info.parameters / 1e9:.1f}B" if info else "",
            "quantization_level": packing_of(model.id) if is_gguf else precision,
        },
    }
