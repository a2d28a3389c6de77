"""Frozen values that cross layers: what is asked of the engine, and the events it answers with.

A `Request` goes in; a reply is a series of events that ends with exactly one `Finished` or `Failed`:

    Loading*  Prefilling*  Piece*  (Finished | Failed)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from app.quantisation import Quantisation
from app.statistics import Split as Split
from app.statistics import Statistics as Statistics
from app.step_trace import NO_TRACE, StepTrace
from app.step_trace import Origin as Origin
from app.validation import require, require_one_of

Role = Literal["system", "user", "assistant"]
DType = Literal["auto", "float32", "bfloat16", "float16"]
Device = Literal["auto", "cpu", "cuda"]
AttentionName = Literal["sdpa", "triton", "flash"]
AttentionChoice = Literal["auto", "sdpa", "triton", "flash"]
DecoderName = Literal["auto", "lookahead", "plain", "prompt-lookup", "jacobi"]
StopReason = Literal["eos", "stop_string", "max_tokens", "context", "stopped"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        require(self.role in get_args(Role), "role must be system, user or assistant", self.role)


Prompt = tuple[Message, ...] | str
"""A chat's messages, or raw text that is sent without a chat template."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn; temperature 0 is greedy. Off: top_k 0, top_p 1, min_p 0, penalty 1."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        require(0 <= self.temperature <= 100, "temperature must be from 0 to 100", self.temperature)
        require(self.top_k >= 0, "top-k must be 0 (off) or more", self.top_k)
        require(0 < self.top_p <= 1, "top-p must be above 0 and at most 1", self.top_p)
        require(0 <= self.min_p < 1, "min-p must be at least 0 and below 1", self.min_p)
        penalty = self.repetition_penalty
        require(0 < penalty <= 100, "repetition penalty must be above 0 and at most 100", penalty)
        require(0 <= self.seed < 2**63, "seed must be from 0 to 2^63-1", self.seed)


MAX_ROWS = 256
"""The widest block that auto may be given."""

Preset = Literal["7b", "13b", "33b"]
PRESETS: Mapping[Preset, tuple[int, int, int]] = MappingProxyType(
    {"7b": (15, 5, 15), "13b": (10, 5, 10), "33b": (7, 5, 7)}
)
"""W, N and G that lookahead's authors advise for models of these sizes (Fu et al. 2024, table 1 of their post)."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Which decoder runs and how wide.

    W, N and G (LADE: WINDOW_SIZE, LEVEL, GUESS_SET_SIZE) are lookahead's; `rows` is auto's budget per step, where 0
    leaves it to the tuner. `same_text` keeps half-precision text the same whichever decoder writes it."""

    decoder: DecoderName = "auto"
    window: int = 5
    ngram: int = 4
    guesses: int = 5
    rows: int = 0
    same_text: bool = True

    def __post_init__(self) -> None:
        require_one_of(DecoderName, "decoder", self.decoder)
        require(0 <= self.window <= 128, "window must be from 0 (off) to 128", self.window)
        require(2 <= self.ngram <= 16, "ngram must be from 2 to 16", self.ngram)
        require(0 <= self.guesses <= 128, "guesses must be from 0 (off) to 128", self.guesses)
        require(0 <= self.rows <= MAX_ROWS, f"rows must be from 0 (auto) to {MAX_ROWS}", self.rows)


@dataclass(frozen=True, slots=True)
class Options:
    """Everything about a reply but its prompt and its model."""

    sampling: Sampling = field(default_factory=Sampling)
    decoding: Decoding = field(default_factory=Decoding)
    max_new_tokens: int = 512
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(self.max_new_tokens >= 1, "max new tokens must be at least 1", self.max_new_tokens)
        require(all(self.stop), "a stop string must not be empty", self.stop)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model as the person names it (folder or hub id), and where and how precisely it runs."""

    name: str
    dtype: DType = "auto"
    device: Device = "auto"
    quantisation: Quantisation = "none"
    attention: AttentionChoice = "auto"

    def __post_init__(self) -> None:
        require(bool(self.name.strip()), "model must be a folder or a hub id", self.name)
        require_one_of(DType, "dtype", self.dtype)
        require_one_of(Device, "device", self.device)
        require_one_of(Quantisation, "quantisation", self.quantisation)
        require_one_of(AttentionChoice, "attention", self.attention)


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model's files on this machine. `label` is shown beside the name: "demo", or nothing."""

    path: Path
    name: str
    label: str = ""
    revision: str = ""


Progress = Callable[[str, int, int], None]
"""Told (what is going on, done, total) while a model is on its way; what it raises ends that."""
Locate = Callable[[str, Progress], ModelFolder]
"""The name of a model -> its files on this machine, downloaded if need be."""


@dataclass(frozen=True, slots=True)
class Request:
    """One reply to be written.

    A chat that ends with the assistant's words asks for their continuation: the pieces are what comes behind.

    `documents` are texts that the reply may quote: the pool reads them. A cold request owes nothing to earlier
    ones: their cache and pool are dropped first, as a benchmark needs it."""

    model: ModelChoice
    prompt: Prompt
    options: Options = field(default_factory=Options)
    documents: tuple[str, ...] = ()
    is_cold: bool = False

    def __post_init__(self) -> None:
        require(bool(self.prompt), "the prompt must not be empty", self.prompt)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What was loaded. `lookahead_note` says why it decodes plainly, and is "" where lookahead works;
    `same_text_note` which steps write the same text; the notes of `attention` ("" where the model keeps its own)
    of `graphs` (whether steps are CUDA graphs) and of the device why it is no better; `fused_note` what layers do
    in kernels of our own. `quantised_share` is of its parameters."""

    name: str
    label: str
    revision: str
    architecture: str
    parameters: int
    context: int
    dtype: str
    device: str
    lookahead_note: str = ""
    same_text_note: str = ""
    quantisation: Quantisation = "none"
    quantised_share: float = 0.0
    attention: AttentionName | Literal[""] = ""
    attention_note: str = ""
    graphs: bool = False
    graphs_note: str = ""
    fused_note: str = ""
    device_note: str = ""


@dataclass(frozen=True, slots=True)
class Loading:
    """The model is on its way: `what` says it in words; with `total` 0 nobody knows how much is left."""

    what: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Prefilling:
    """The prompt is being read: tokens done of tokens to do."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What one step added. `text` may be empty while a character or a stop string is only half there.

    `ends` say for each token how much of `text` is there once it has come: token i is text[ends[i-1]:ends[i]]. A
    piece without tokens is the end of the newest token's text, which was held back."""

    text: str
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    statistics: Statistics
    ends: tuple[int, ...] = ()
    trace: StepTrace = NO_TRACE


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply is complete, for this reason. The pieces' texts joined are the reply."""

    reason: StopReason
    statistics: Statistics
    model: ModelInfo
    decoder: DecoderName


@dataclass(frozen=True, slots=True)
class Failed:
    """The reply ended with an error: one or two sentences for the person. What was written before stays."""

    sentence: str


Event = Loading | Prefilling | Piece | Finished | Failed
Terminal = Finished | Failed

EnginePhase = Literal["starting", "loading", "ready", "busy", "failed", "closed"]


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """What the worker does now. `note` is a sentence for the person; `model` is the loaded one, if any.

    `peak` are the bytes that model took at most so far, 0 where nobody can tell."""

    phase: EnginePhase
    note: str = ""
    model: ModelInfo | None = None
    peak: int = 0
