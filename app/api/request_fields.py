"""The bodies of requests: how they are parsed, and the fields that several routes share.

A large body is parsed on a thread, so that other clients need not wait. Unknown fields are ignored, and lone
surrogates in strings are replaced by U+FFFD.
"""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from fastapi import Request as HttpRequest
from fastapi import Response
from fastapi.routing import APIRoute
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json
from starlette.exceptions import HTTPException

from app.api.errors import ApiError
from app.values.chat_format import Thinking, ThinkingLevel
from app.values.logits import Grammar, LogitsSettings
from app.values.messages import COLDEST, DecoderName, Sampling
from app.values.text_normalisation import without_surrogates

SMALL = 2**14
"""Bodies of fewer bytes are parsed on the event loop, others on a thread."""
MOST_VALUES = 1_000_000
"""Maximum number of commas between values. Parsing many more blocks all other threads for seconds."""
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?')
TOO_MANY_VALUES = f"The request's body has more than {MOST_VALUES:,} values: send fewer in one request."
TOO_DEEP = "The request's body is nested too deeply."
HIGHEST_LIMIT = 2**31
"""Larger limits of new tokens are reduced to this, which is far above any context."""
MOST_CHOICES = 16
MOST_STOPS, LONGEST_STOP = 64, 1_000
"""Limits for stop strings, because each of them is searched for after every token."""
MOST_BIASES = 300_000
"""Maximum number of biased tokens, more than any vocabulary has."""
TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
LEVELS: Mapping[Any, ThinkingLevel] = {
    **{level: level for level in get_args(ThinkingLevel)}, "none": "off", "xhigh": "max", True: "on", False: "off",
}  # fmt: skip
OF_THE_APP = (
    "messages", "tools", "documents", "conversations", "chat_template", "add_generation_prompt",
    "continue_final_message", "return_assistant_tokens_mask",
)  # fmt: skip
"""Variables of templates that chat_template_kwargs cannot set, because Foresight sets them."""
UNSUPPORTED: Mapping[str, str] = {
    **dict.fromkeys(
        ("response_format", "output_format", "format", "json_schema", "regex", "ebnf", "grammar",
         "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
        "send {form}",
    ),
    "audio": "it writes only text",
    "background": "send stream instead",
    "conversation": "it keeps no conversations; send all items as input",
    "functions": "send tools",
    "images": "it reads only text",
    "previous_response_id": "it keeps no responses; send all items as input",
    "suffix": "it continues a text only at its end",
    "web_search_options": "it has no search",
}  # fmt: skip
"""Maps each field to the advice with which it is refused, unless the route's request defines the field. If the
field were ignored, the answer might not be what the client asks for. {form} is the field that the route accepts."""
SWITCHES = ("reasoning_effort", "enable_thinking", "thinking")
"""Template variables that choose the level of thinking if no field does. Each is a word, true or false."""
Limit = Annotated[
    Annotated[int, Field(ge=0)] | None,
    BeforeValidator(lambda given: None if given in (-1, -2) else given),
    AfterValidator(lambda given: given and min(given, HIGHEST_LIMIT)),
]
"""A maximum number of tokens; -1 and -2 mean no maximum. With 0 new tokens only the prompt is read."""
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Bias = Annotated[float, Field(ge=-100, le=100)]

T = TypeVar("T")
Some = Annotated[list[T], Field(fail_fast=True)]
"""A list whose validation ends at the first wrong entry, because reporting a million errors would take seconds."""


def described(types: str) -> WrapValidator:
    """Make a validator whose only error is "must be {types}", instead of one error for each type of a union."""

    def read(given: Any, validated: Callable[[Any], Any]) -> Any:
        try:
            return validated(given)
        except ValidationError as error:
            raise PydanticCustomError("types", "must be {types}", {"types": types}) from error

    return WrapValidator(read)


Texts = Annotated[
    str | Some[TokenId] | Some[str] | Some[Some[TokenId]],
    Field(min_length=1),
    described("a text, a list of texts, or the token ids of one or several texts, and not empty"),
]
"""A text, a list of texts, the token ids of one text, or a list of several texts' token ids."""
Stops = Annotated[
    Annotated[Some[Annotated[str, Field(max_length=LONGEST_STOP)]], Field(max_length=MOST_STOPS)] | None,
    BeforeValidator(
        lambda one: [one] if isinstance(one, str) else one, json_schema_input_type=str | list[str] | None
    ),
]
"""The stop strings: a list, or a single string."""


class Body(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)
    form: ClassVar[str] = "response_format"
    """Name of the field that gives the format of the answer."""

    @model_validator(mode="before")
    @classmethod
    def _as_other_clients_send(cls, given: Any) -> Any:
        """Leave out empty lists, which PHP sends for empty objects. Raises ApiError for an UNSUPPORTED field."""
        if not isinstance(given, dict):
            return given
        for name in UNSUPPORTED.keys() - cls.model_fields.keys():
            refuse(
                given.get(name) not in (None, False, "", []), name, UNSUPPORTED[name].format(form=cls.form)
            )
        return {name: value for name, value in given.items() if value != []}


class JsonRoute(APIRoute):
    """A route that reads its JSON body with `_JsonRequest`. Ignores the Content-Type, because curl and LiteLLM send
    other types."""

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: HttpRequest) -> Response:
            headers = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
            scope = {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}
            return await handle(_JsonRequest(scope, request.receive))

        return handler


class _JsonRequest(HttpRequest):
    async def json(self) -> Any:
        """Return the parsed body. Raises HTTPException if it is refused, JSONDecodeError for invalid JSON."""
        if not hasattr(self, "_json"):
            if (encoding := self.headers.get("content-encoding", "identity")) != "identity":
                raise HTTPException(
                    415, f"The request's body is compressed ({encoding[:40]}): send it uncompressed."
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
        # JSON can contain lone surrogates, which no tokenizer reads.
        text = json.dumps(json.loads(body), ensure_ascii=False)
        return json.loads(without_surrogates(text))
    except RecursionError as error:
        raise HTTPException(400, TOO_DEEP) from error
    except UnicodeDecodeError as error:
        raise HTTPException(400, "The request's body is not UTF-8 text.") from error


class ForesightFields(BaseModel):
    """Foresight's own fields. The decoder does not change the text."""

    decoder: DecoderName | None = None


class ReasoningFields(BaseModel):
    """The field `reasoning` of /v1/responses, which some clients also send to /v1/chat/completions."""

    effort: Effort | None = None
    max_tokens: Limit = None


class ThinkingFields(BaseModel):
    """Fields by which clients choose how much a model thinks, and set variables of its chat template.

    Each server has its own names for them: reasoning_effort and reasoning are OpenAI's, chat_template_kwargs are
    vLLM's and llama.cpp's. For a level that a model's template does not have, the nearest level is used."""

    reasoning_effort: Effort | None = None
    reasoning: ReasoningFields | None = None
    enable_thinking: bool | None = None
    thinking_budget: Limit = None
    max_thinking_tokens: Limit = None
    chat_template_kwargs: dict[str, Any] | None = None

    @property
    def thinking(self) -> Thinking:
        """The level and the budget, each from the first field that has it.

        A budget of 0 switches thinking off, unless a field names a level."""
        reasoning, values = self.reasoning or ReasoningFields(), self.chat_template_kwargs or {}
        budgets = (self.thinking_budget, self.max_thinking_tokens, reasoning.max_tokens)
        budget = next((one for one in budgets if one is not None), None)
        asked = (self.reasoning_effort, reasoning.effort, self.enable_thinking, *map(values.get, SWITCHES))
        usual = "off" if budget == 0 else "default"
        level = next((one for one in asked if isinstance(one, str | bool) and one in LEVELS), usual)
        return Thinking(LEVELS[level], budget or 0)

    @property
    def template_variables(self) -> str:
        """The chat template's variables as JSON, or "". Raises ApiError if one of OF_THE_APP is given, or if
        one of SWITCHES has a wrong type."""
        values = self.chat_template_kwargs or {}
        if taken := [name for name in values if name in OF_THE_APP]:
            raise ApiError(
                f"chat_template_kwargs: {taken[0]} is set by Foresight: leave it out.", "chat_template_kwargs"
            )
        if wrong := [name for name in SWITCHES if not isinstance(values.get(name), str | bool | None)]:
            raise ApiError(
                f"chat_template_kwargs: {wrong[0]} must be a word, true or false.", "chat_template_kwargs"
            )
        return json.dumps(values) if values else ""


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
    """The fields of chat completions and completions, most of which other routes lack."""

    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    logit_bias: Annotated[dict[str, Bias], Field(max_length=MOST_BIASES)] | None = None
    stop: Stops = None
    n: int | None = Field(None, ge=1, le=MOST_CHOICES)
    stream_options: StreamOptions | None = None

    @property
    def has_usage_chunk(self) -> bool:
        """Whether a stream ends with a chunk of the token usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def sampling(self, seed: int) -> Sampling:
        temperature = 1.0 if self.temperature is None else self.temperature
        return Sampling(
            # Clients send tiny temperatures to get the likeliest token.
            temperature=temperature if temperature >= COLDEST else 0.0,
            top_k=max(0, self.top_k or 0),
            # In OpenAI's API 0 is allowed, and selects the likeliest token.
            top_p=max(1e-9, 1.0 if self.top_p is None else self.top_p),
            min_p=self.min_p or 0.0,
            repetition_penalty=self.repetition_penalty or 1.0,
            seed=seed,
        )

    def logits(self, grammar: Grammar | None, top_logprobs: int, of_prompt: bool) -> LogitsSettings:
        """Return the settings that change or report the logits. Raises ApiError if a bias is not for a token id."""
        biases = self.logit_bias or {}
        if wrong := [token for token in biases if not token.isdecimal() or len(token) > 9]:
            raise ApiError(f"logit_bias: {wrong[0]!r} is not a token id.", "logit_bias")
        pairs = tuple((int(token), bias) for token, bias in biases.items())
        frequency, presence = self.frequency_penalty or 0.0, self.presence_penalty or 0.0
        return LogitsSettings(frequency, presence, pairs, grammar, top_logprobs, of_prompt)


class Prediction(BaseModel):
    """Text that the reply will probably contain. It is a source of drafts and never changes the reply."""

    type: Literal["content"] = "content"
    content: Any = ""


def each_text(given: str | list[Any], param: str, most: int) -> list[str | tuple[int, ...]]:
    """Return the texts of a field as a list. Raises ApiError for an empty text or more than `most` texts."""
    texts = [given] if isinstance(given, str) or isinstance(given[0], int) else given
    if not all(texts):
        raise ApiError(f"{param} must not be empty.", param)
    if len(texts) > most:
        raise ApiError(f"{param} has {len(texts):,} texts: send at most {most:,} at once.", param)
    return [one if isinstance(one, str) else tuple(one) for one in texts]


def refuse(given: object, param: str, advice: str) -> None:
    """Raise ApiError if `given`, the value of an unsupported parameter, is true."""
    if given:
        raise ApiError(f"Foresight does not support {param}: {advice}.", param)


def text_of(content: Any, param: str) -> str:
    """Return the text of a message's content: a string, a part, or a list of parts.

    Raises ApiError for parts that are not text."""
    if isinstance(content, list):
        return "\n".join(text_of(part, f"{param}[{place}]") for place, part in enumerate(content))
    if isinstance(content, str | None):
        return content or ""
    kind = content.get("type") if isinstance(content, dict) else None
    text = content.get("refusal" if kind == "refusal" else "text") if kind in TEXT_PARTS else None
    if not isinstance(text, str):
        raise ApiError(
            f"{param}: Foresight reads only text, not {kind or 'this'}: send a part of type text.", param
        )
    return text
