"""The bodies of requests: how they are read, and the fields that chat completions, completions and responses share.

A large body is parsed on a thread, so that it holds up no other client. Unknown fields are ignored, and lone
surrogates are removed from all strings.
"""

import asyncio
import json
import re
import secrets
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Request as HttpRequest
from fastapi import Response
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from app.api.errors import ApiError
from app.api.services import ServedModel
from app.api.thinking_fields import ThinkingFields
from app.api.tool_use import ToolUse
from app.values.chat_format import DEFAULT_THINKING
from app.values.logits import Grammar, LogitsSettings
from app.values.messages import COLDEST, DecoderName, Decoding, Options, Prompt, Request, Sampling
from app.values.text_normalisation import without_surrogates

SMALL = 2**14
"""Bodies of fewer bytes are parsed on the event loop, others on a thread."""
MOST_VALUES = 1_000_000
"""Maximum number of values in a body. JSON with many more takes seconds to parse, while no other thread can run."""
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?')
TOO_MANY_VALUES = f"The request's body has more than {MOST_VALUES:,} values: send less at once."
TOO_DEEP = "The request's body is nested too deeply."
HIGHEST_LIMIT = 2**31
"""The highest limit of new tokens that a request may give, far above any context."""
MOST_CHOICES = 16
MOST_STOPS, LONGEST_STOP = 64, 1_000
"""Limits for stop strings, because each of them is searched for after every token."""
MOST_BIASES = 300_000
"""Maximum number of biased tokens, more than any vocabulary has."""
TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
Limit = Annotated[
    Annotated[int, Field(ge=0)] | None,
    BeforeValidator(lambda given: None if given == -1 else given),
    AfterValidator(lambda given: given and min(given, HIGHEST_LIMIT)),
]
"""A maximum number of tokens; some clients send -1 for none. With 0 the prompt is read, and nothing is written."""
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Bias = Annotated[float, Field(ge=-100, le=100)]

T = TypeVar("T")
Some = Annotated[list[T], Field(fail_fast=True)]
"""A list of which only the first wrong entry is reported, because describing a million would take seconds."""


class Body(BaseModel):
    """The base of every request's body."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class JsonRoute(APIRoute):
    """A route that reads its JSON body with `_JsonRequest`: a large one on a thread, without lone surrogates, and
    with at most MOST_VALUES values. Its Content-Type does not matter: curl and LiteLLM send others."""

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, which parses the body with `_JsonRequest`."""
        handle = super().get_route_handler()

        async def handler(request: HttpRequest) -> Response:
            headers = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
            scope = {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}
            return await handle(_JsonRequest(scope, request.receive))

        return handler


class _JsonRequest(HttpRequest):
    async def json(self) -> Any:
        """Return the parsed body. Raises HTTPException for too many values, JSONDecodeError for invalid JSON."""
        if not hasattr(self, "_json"):
            if (encoding := self.headers.get("content-encoding", "identity")) != "identity":
                raise HTTPException(
                    415, f"The request's body is compressed ({encoding[:40]}): send it as it is."
                )
            body = await self.body()
            self._json = _read(body) if len(body) < SMALL else await asyncio.to_thread(_read, body)
        return self._json


def _read(body: bytes) -> Any:
    if body.count(b",") > MOST_VALUES and STRING.sub(b"", body).count(b",") > MOST_VALUES:
        raise HTTPException(413, TOO_MANY_VALUES)
    try:
        return from_json(body)
    except ValueError as error:
        if "recursion limit" in str(error):
            raise HTTPException(400, TOO_DEEP) from error
    try:
        return _whole(json.loads(body))
    except RecursionError as error:
        raise HTTPException(400, TOO_DEEP) from error
    except UnicodeDecodeError as error:
        raise HTTPException(400, "The request's body is not UTF-8 text.") from error


def _whole(value: Any) -> Any:
    """Return the value without lone surrogates, which JSON can contain but no tokenizer reads."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(one) for key, one in value.items()}
    return value


class ForesightFields(BaseModel):
    """Foresight's own fields. The decoder does not change the text."""

    decoder: DecoderName | None = None


class SamplingFields(Body, ThinkingFields):
    """The fields that every endpoint for text has. A null field counts as left out."""

    model: str | None = ""
    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=2**31)
    min_p: float | None = Field(None, ge=0, lt=1)
    repetition_penalty: float | None = Field(None, ge=0.01, le=100)
    seed: int | None = Field(None, ge=-(2**63), lt=2**64)
    stream: bool | None = False
    foresight: ForesightFields | None = None


class StreamOptions(BaseModel):
    include_usage: bool | None = False


class PenaltyFields(SamplingFields):
    """The fields that the responses API does not have."""

    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    logit_bias: Annotated[
        Annotated[dict[str, Bias], Field(max_length=MOST_BIASES)] | None,
        BeforeValidator(lambda given: None if given == [] else given),
    ] = None
    stop: str | Some[str] | None = None
    n: int | None = Field(None, ge=1, le=MOST_CHOICES)
    stream_options: StreamOptions | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings. Raises ApiError for too many strings, or a string that is too long."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        longest = max(map(len, given), default=0)
        if len(given) > MOST_STOPS or longest > LONGEST_STOP:
            raise ApiError(
                f"stop has {len(given):,} strings of up to {longest:,} characters: send at most {MOST_STOPS} of "
                f"{LONGEST_STOP:,} characters.",
                "stop",
            )
        return tuple(one for one in given if one)

    def options(self, max_tokens: int | None, seed: int) -> Options:
        temperature = 1.0 if self.temperature is None else self.temperature
        sampling = Sampling(
            # Clients send tiny temperatures if they want the likeliest token.
            temperature=temperature if temperature >= COLDEST else 0.0,
            top_k=max(0, self.top_k or 0),
            # In OpenAI's API 0 is allowed, and selects the likeliest token.
            top_p=max(1e-9, 1.0 if self.top_p is None else self.top_p),
            min_p=self.min_p or 0.0,
            repetition_penalty=self.repetition_penalty or 1.0,
            seed=seed,
        )
        decoding = Decoding((self.foresight and self.foresight.decoder) or "auto")
        return Options(sampling, decoding, max_tokens or 0, stop=self.stops)

    @property
    def has_usage_chunk(self) -> bool:
        """Whether a stream ends with a chunk of the token usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def choices(self) -> int:
        """The number of replies to write to each prompt."""
        return self.n or 1

    def logits(self, grammar: Grammar | None, top_logprobs: int) -> LogitsSettings:
        """Return the settings that change or report the logits. Raises ApiError if a bias is not for a token id."""
        biases = self.logit_bias or {}
        if wrong := [token for token in biases if not token.isdecimal() or len(token) > 9]:
            raise ApiError(f"logit_bias: {wrong[0]!r} is not a token id.", "logit_bias")
        return LogitsSettings(
            self.frequency_penalty or 0.0,
            self.presence_penalty or 0.0,
            tuple((int(token), bias) for token, bias in biases.items()),
            grammar,
            top_logprobs,
        )


class Prediction(BaseModel):
    """Text that the reply will probably contain. Drafts are taken from it; it never changes the reply."""

    type: Literal["content"] = "content"
    content: Any = ""


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
    """Make a request for each choice, each with its own seed. Raises ApiError.

    If the client sends no seed, the first seed is random."""
    first = fields.seed % 2**63 if fields.seed is not None else secrets.randbits(32)
    logits = replace(fields.logits(tools.grammar, top_logprobs), of_prompt=of_prompt)
    thinking = fields.thinking if fields.thinking != DEFAULT_THINKING else model.thinking
    try:
        return [
            Request(
                model.choice,
                prompt,
                replace(fields.options(max_tokens, seed), thinking=thinking),
                logits=logits,
                prediction=prediction,
                tools=tools.native,
                variables=fields.template_variables,
                control=tools.control,
                only_prompt=max_tokens == 0,
            )
            for seed in ((first + place) % 2**63 for place in range(fields.choices))
        ]
    except ValueError as error:
        raise ApiError(f"{error}.") from error


def refuse(given: object, param: str, advice: str) -> None:
    """Raise ApiError if a parameter that is not supported has a true value."""
    if given:
        raise ApiError(f"Foresight does not support {param}: {advice}.", param)


def text_of(content: Any, param: str) -> str:
    """Return the text of a message's content, which is a string or a list of parts.

    Raises ApiError for images, sound and files."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise ApiError(f"{param} must be a string or a list of parts.", param)
    return "\n".join(text_of_part(part, f"{param}[{place}]") for place, part in enumerate(content))


def text_of_part(part: Any, param: str) -> str:
    """Return the text of a part of a message. Raises ApiError for images, sound and files."""
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, dict) else None
    text = part.get("refusal" if kind == "refusal" else "text") if isinstance(part, dict) else None
    if kind not in TEXT_PARTS or not isinstance(text, str):
        raise ApiError(
            f"{param}: Foresight reads only text, not {kind or 'this'}: send a part of type text.", param
        )
    return text
