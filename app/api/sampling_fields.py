"""The parameters that chat completions, completions and responses share, and what they mean to the engine."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.api.body import Body, Some
from app.api.errors import ApiError
from app.api.services import ServedModel
from app.values.logits import Grammar, LogitsSettings
from app.values.messages import COLDEST, DecoderName, Decoding, Options, Prompt, Request, Sampling

UNLIMITED = 2**31
"""New tokens of a request that names no limit: the context ends it."""
MOST_CHOICES = 16
MOST_STOPS, LONGEST_STOP = 64, 1_000
"""Each is looked for behind every token."""
MOST_BIASES = 300_000
"""More than any vocabulary has tokens."""
Positive = Annotated[int, Field(ge=1, le=UNLIMITED)]
Bias = Annotated[float, Field(ge=-100, le=100)]


class ForesightFields(BaseModel):
    """What is Foresight's own: the texts are the same with every decoder."""

    decoder: DecoderName | None = None


class SamplingFields(Body):
    """Null is as good as left out."""

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
    """Of a stream."""

    include_usage: bool | None = False


class PenaltyFields(SamplingFields):
    """Those that the responses API does not have."""

    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    logit_bias: Annotated[dict[str, Bias], Field(max_length=MOST_BIASES)] | None = None
    stop: str | Some[str] | None = None
    n: int | None = Field(None, ge=1, le=MOST_CHOICES)
    stream_options: StreamOptions | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings. Raises ApiError for too many, or one that is too long."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        longest = max(map(len, given), default=0)
        if len(given) > MOST_STOPS or longest > LONGEST_STOP:
            raise ApiError(
                f"stop has {len(given):,} strings of up to {longest:,} characters: send at most {MOST_STOPS} of "
                f"{LONGEST_STOP:,} characters.",
                "stop",
            )
        return tuple(one for one in given if one)

    @property
    def has_usage_chunk(self) -> bool:
        """Whether a stream ends with the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


class Prediction(BaseModel):
    """What the reply will probably contain: drafted from, and never changing the text."""

    type: Literal["content"] = "content"
    content: Any = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's own parts: the prompt, how far the reply may go, and what it will probably be."""

    prompt: Prompt
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    prediction: str = ""
    grammar: Grammar | None = None
    top_logprobs: int = -1
    tools: str = ""
    control: tuple[str, ...] = ()


def engine_requests(fields: SamplingFields, model: ServedModel, asked: Asked) -> list[Request]:
    """One request for each choice, each with its own seed. Raises ApiError."""
    first, count = seed_of(fields), (fields.n if isinstance(fields, PenaltyFields) else 1) or 1
    logits = _logits(fields, asked)
    try:
        return [
            Request(
                model.choice,
                asked.prompt,
                _options(fields, asked, seed),
                logits=logits,
                prediction=asked.prediction,
                tools=asked.tools,
                control=asked.control,
            )
            for seed in ((first + place) % 2**63 for place in range(count))
        ]
    except ValueError as error:
        raise ApiError(f"{error}.") from error


def seed_of(fields: SamplingFields) -> int:
    """The seed; without one a draw is a new one each time."""
    return fields.seed % 2**63 if fields.seed is not None else secrets.randbits(32)


def _options(fields: SamplingFields, asked: Asked, seed: int) -> Options:
    sampling = Sampling(
        temperature=_temperature(fields.temperature),
        top_k=max(0, fields.top_k or 0),
        # OpenAI takes 0, and means the likeliest token alone.
        top_p=max(1e-9, 1.0 if fields.top_p is None else fields.top_p),
        min_p=fields.min_p or 0.0,
        repetition_penalty=fields.repetition_penalty or 1.0,
        seed=seed,
    )
    decoding = Decoding((fields.foresight and fields.foresight.decoder) or "auto")
    return Options(sampling, decoding, asked.max_tokens or UNLIMITED, stop=asked.stops)


def _temperature(given: float | None) -> float:
    """Clients send tiny ones for the likeliest token."""
    return 1.0 if given is None else given if given >= COLDEST else 0.0


def _logits(fields: SamplingFields, asked: Asked) -> LogitsSettings:
    if not isinstance(fields, PenaltyFields):
        return LogitsSettings(grammar=asked.grammar, top_logprobs=asked.top_logprobs)
    return LogitsSettings(
        fields.frequency_penalty or 0.0,
        fields.presence_penalty or 0.0,
        _biases(fields.logit_bias or {}),
        asked.grammar,
        asked.top_logprobs,
    )


def _biases(given: dict[str, float]) -> tuple[tuple[int, float], ...]:
    if wrong := [token for token in given if not token.isdecimal() or len(token) > 9]:
        raise ApiError(f"logit_bias: {wrong[0]!r} is no token id.", "logit_bias")
    return tuple((int(token), bias) for token, bias in given.items())


def refuse(given: object, param: str, advice: str) -> None:
    """Refuse a parameter that cannot be done, where it asks for something."""
    if given:
        raise ApiError(f"Foresight cannot do {param}: {advice}.", param)


def text_of(content: Any, param: str) -> str:
    """The text of a content, which is a string or a list of parts. Raises ApiError for images, sound and files."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise ApiError(f"{param} must be a string or a list of parts.", param)
    return "\n".join(_part(part, f"{param}[{place}]") for place, part in enumerate(content))


TEXT_PARTS = ("text", "input_text", "output_text", "refusal")


def _part(part: Any, param: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, dict) else None
    text = part.get("refusal" if kind == "refusal" else "text") if isinstance(part, dict) else None
    if kind not in TEXT_PARTS or not isinstance(text, str):
        raise ApiError(
            f"{param}: Foresight reads text alone, not {kind or 'this'}: send a part of type text.", param
        )
    return text
