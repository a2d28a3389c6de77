"""Frozen values that layers exchange: requests to the engine, and the events of its replies.

    Loading*  Prefilling*  Piece*  (Finished | Failed)

A chat's reply that calls tools is written by several requests. Its log has Called events, and only one end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol, get_args

from app.values.chat_format import ChatFormat, Thinking
from app.values.logits import LogitsSettings, TokenLogprobs
from app.values.quantisation_sizes import Quantisation, QuantisationChoice, kept_words
from app.values.reply_statistics import NO_TRACE, StepTrace
from app.values.reply_statistics import Origin as Origin
from app.values.reply_statistics import Split as Split
from app.values.reply_statistics import Statistics as Statistics
from app.values.tools import CalledTool
from app.values.validation import require, require_one_of

DType = Literal["auto", "float32", "bfloat16", "float16"]
Device = Literal["auto", "cpu", "cuda"]
AttentionName = Literal["sdpa", "native", "triton", "flash"]
AttentionChoice = Literal["auto", "sdpa", "native", "triton", "flash"]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model (folder or hub id), and its precision, device, quantisation and attention backend.

    `context` is the longest context in tokens; 0 means the model's own. If `server` is the address of a server, the
    model runs there, and only its name is used. `draft_model` is the folder or hub id of a model that drafts for
    this model; "" for none. With `offload` the weights for which a GPU has no room stay in main memory.
    `quantisation` "auto" quantises only on a CPU, and only if `dtype` is also "auto"."""

    name: str
    dtype: DType = "auto"
    device: Device = "auto"
    quantisation: QuantisationChoice = "auto"
    attention: AttentionChoice = "auto"
    context: int = 0
    server: str = ""
    draft_model: str = ""
    offload: bool = False

    def __post_init__(self) -> None:
        require(0 <= self.context <= 2**31, "context must be from 0 (the model's own) to 2^31", self.context)
        require(bool(self.name.strip()), "model must be a folder or a hub id", self.name)
        is_named = not self.draft_model or bool(self.draft_model.strip())
        require(is_named, "draft model must be a folder or a hub id", self.draft_model)
        require_one_of(DType, "dtype", self.dtype)
        require_one_of(Device, "device", self.device)
        require_one_of(QuantisationChoice, "quantisation", self.quantisation)
        require_one_of(AttentionChoice, "attention", self.attention)


Role = Literal["system", "user", "assistant"]
PromptRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool. `arguments` is JSON; with `arguments_as_text` the chat template gets this JSON unparsed."""

    id: str
    name: str
    arguments: str
    arguments_as_text: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat. `calls` are the assistant's calls of tools, and `thought` is its thought, for
    templates that show thoughts. A tool's message answers the call with its `call_id` and `name`. A stored reply
    has its calls and their results in `called`; the prompt gets separate messages for them."""

    role: PromptRole
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""
    thought: str = ""
    called: tuple[CalledTool, ...] = ()

    def __post_init__(self) -> None:
        require(self.role in get_args(PromptRole), "role must be system, user, assistant or tool", self.role)


@dataclass(frozen=True, slots=True)
class TokenIds:
    """The tokens of a raw text, as the model's tokenizer numbers them."""

    ids: tuple[int, ...]

    def __post_init__(self) -> None:
        require(bool(self.ids) and min(self.ids) >= 0, "a prompt needs token ids from 0", self.ids[:9])


Prompt = tuple[Message, ...] | TokenIds | str
"""A chat's messages, or raw text that is not put into a chat template, or the token ids of such a text."""


DecoderName = Literal["auto", "lookahead", "plain", "prompt-lookup", "jacobi"]
StopReason = Literal["eos", "stop_string", "max_tokens", "context", "stopped"]

COLDEST = 1e-5
"""The lowest temperature above 0; logits divided by a far smaller number overflow float32."""


NEW_SEED = 2**63
"""A value of `seed` that asks for a new random seed for each reply. The seed is drawn before the reply is
requested."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is sampled; temperature 0 is greedy. Values that mean "off": top_k 0, top_p 1, min_p 0,
    repetition_penalty 1."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        temperature = self.temperature
        require(0 <= temperature <= 100, "temperature must be from 0 to 100", temperature)
        require(
            temperature == 0 or temperature >= COLDEST,
            f"temperature must be 0 or at least {COLDEST}",
            temperature,
        )
        require(self.top_k >= 0, "top-k must be 0 (off) or more", self.top_k)
        require(0 < self.top_p <= 1, "top-p must be above 0 and at most 1", self.top_p)
        require(0 <= self.min_p < 1, "min-p must be at least 0 and below 1", self.min_p)
        penalty = self.repetition_penalty
        require(0.01 <= penalty <= 100, "repetition penalty must be from 0.01 to 100", penalty)
        require(0 <= self.seed <= NEW_SEED, "seed must be from 0 to 2^63-1", self.seed)


MAX_ROWS = 256
"""The largest number of rows per step that can be chosen for auto."""

Preset = Literal["7b", "13b", "33b"]
PRESETS: Mapping[Preset, tuple[int, int, int]] = MappingProxyType(
    {"7b": (15, 5, 15), "13b": (10, 5, 10), "33b": (7, 5, 7)}
)
"""W, N and G that lookahead's authors recommend for models of these sizes (Fu et al. 2024, table 1)."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Which decoder runs, and how many rows (token positions) its steps have.

    `window` W, `ngram` N and `guesses` G are lookahead's sizes (WINDOW_SIZE, LEVEL, GUESS_SET_SIZE in its authors'
    code). `rows` is auto's number of rows per step; 0 lets the tuner choose. With `same_text` every decoder writes
    the same text in half precision, too."""

    decoder: DecoderName = "auto"
    window: int = 5
    ngram: int = 4
    guesses: int = 5
    rows: int = 0
    same_text: bool = True

    def __post_init__(self) -> None:
        require_one_of(DecoderName, "decoder", self.decoder)
        require(0 <= self.window <= 128, "W (window) must be from 0 (off) to 128", self.window)
        require(2 <= self.ngram <= 16, "N (n-gram) must be from 2 to 16", self.ngram)
        require(0 <= self.guesses <= 128, "G (guesses) must be from 0 (off) to 128", self.guesses)
        require(0 <= self.rows <= MAX_ROWS, f"rows per step must be from 0 (auto) to {MAX_ROWS}", self.rows)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a reply. With `max_new_tokens` 0 the reply may fill the context."""

    sampling: Sampling = field(default_factory=Sampling)
    decoding: Decoding = field(default_factory=Decoding)
    max_new_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    thinking: Thinking = field(default_factory=Thinking)

    def __post_init__(self) -> None:
        require(self.max_new_tokens >= 0, "max new tokens must be 0 (no limit) or more", self.max_new_tokens)
        require(all(self.stop), "a stop string must not be empty", self.stop)


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model's files on this machine. `label` is shown next to the name: "demo" or "".

    `path` is a folder or a GGUF file. If the folder was made from a GGUF file, `gguf` is that file, which has the
    weights."""

    path: Path
    name: str
    label: str = ""
    revision: str = ""
    gguf: Path | None = None


Progress = Callable[[str, int, int], None]
"""Called with (description, done, total) while a model is loaded. If it raises, loading is cancelled."""
Locate = Callable[[str, Progress], ModelFolder]
"""Returns a model's files on this machine, by the model's name. Downloads them if necessary."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the engine for one reply.

    If the last message is the assistant's, the reply continues it, and the pieces have only the new text.

    `documents` are texts that the reply may quote, and `prediction` is the probable reply; the n-gram pool learns
    both. If `is_cold`, the KV cache and the pool of earlier requests are dropped first, as benchmarks require.
    `tools` are descriptions of tools as JSON, which the chat template puts into the prompt; `variables` is a JSON
    object of other variables for the template. `control` are the control tokens that are kept in the reply's text.
    With `only_prompt` the prompt is read, and the reply is empty."""

    model: ModelChoice
    prompt: Prompt
    options: Options = field(default_factory=Options)
    documents: tuple[str, ...] = ()
    is_cold: bool = False
    logits: LogitsSettings = field(default_factory=LogitsSettings)
    prediction: str = ""
    tools: str = ""
    variables: str = ""
    control: tuple[str, ...] = ()
    only_prompt: bool = False

    def __post_init__(self) -> None:
        require(bool(self.prompt), "the prompt must not be empty", self.prompt)

    @property
    def is_chat(self) -> bool:
        """Whether the prompt is a chat, which is put into the model's template."""
        return isinstance(self.prompt, tuple)


NoteName = Literal[
    "device", "lookahead", "chains", "attention", "graphs", "fused", "same-text", "compiler", "heads", "template",
    "parts", "quantised",
]  # fmt: skip


UNSTORED = "chat_format"
"""The field of ModelInfo that is not stored with replies, because it is determined anew at each load."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The loaded model, with notes for the user about how it runs and why it does not run better.

    The notes by their names:

        lookahead, chains           why it decodes plainly; why its drafts are chains and not trees
        device, attention, graphs   why no better device, attention or CUDA graphs are used
        fused                       which layers run in Foresight's own kernels, or why none does
        same-text                   which step sizes write the same text, or why no two do
        compiler, quantised         why nothing was compiled here; why weights are or are not quantised
        heads                       whether the draft heads in its checkpoint are used
        template, parts             how messages are sent without a chat template; what it could read beside text

    `attention` is "" if the model uses its own attention. `quantised_share` is the share of its parameters that are
    quantised. `kept_bits` is the mean number of bits of a packed number if matrices stay packed as in their file,
    else 0. `draft_model` names the model or head that drafts for it; `heads` is whether a head in its own
    checkpoint drafts. `offloaded` is the number of bytes of weights that stay in main memory and are copied to the
    GPU in each step. `server` is the address of the server that runs it, "" if it is loaded here; little more than
    the name of a server's model is known. `devices` are the devices that share each step if there are several.
    """

    name: str
    label: str
    revision: str
    architecture: str
    parameters: int
    context: int
    dtype: str
    device: str
    same_text: bool = True
    quantisation: Quantisation = "none"
    quantised_share: float = 0.0
    kept_bits: float = 0.0
    attention: AttentionName | Literal[""] = ""
    graphs: bool = False
    fused: bool = False
    draft_model: str = ""
    heads: bool = False
    server: str = ""
    devices: tuple[str, ...] = ()
    offloaded: int = 0
    chat_format: ChatFormat = field(default_factory=ChatFormat, compare=False)
    notes: Mapping[NoteName, str] = field(default_factory=dict, hash=False)

    @property
    def weights(self) -> str:
        """The weights in words: "int8 weights", or "4.6 bits per weight" if packed; "" if they are floats."""
        if self.kept_bits:
            return kept_words(self.kept_bits)
        return "" if self.quantisation == "none" else f"{self.quantisation} weights"

    def note(self, *names: NoteName) -> str:
        """Return the first of these notes that is not empty; "" if all are empty."""
        return next(filter(None, (self.notes.get(name, "") for name in names)), "")

    def with_note(self, name: NoteName, text: str) -> "ModelInfo":
        return replace(self, notes={**self.notes, name: text})

    @property
    def refusals(self) -> dict[NoteName, str]:
        """The notes that explain why something faster or more exact is not used here."""
        used = {"fused": self.fused, "same-text": self.same_text, "heads": self.heads}
        return {name: text for name in REFUSALS if (text := self.note(name)) and not used.get(name)}


REFUSALS: tuple[NoteName, ...] = (
    "device", "chains", "attention", "graphs", "fused", "same-text", "compiler", "heads", "template",
    "quantised",
)  # fmt: skip
"""Notes that may explain why something is not used; `fused`, `same-text` and `heads` may also report its use."""


@dataclass(frozen=True, slots=True)
class Loading:
    """The model is being loaded: `what` describes the current part; `total` is 0 if it is unknown."""

    what: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Prefilling:
    """The prompt is being read: `done` of `total` tokens.

    `logprobs` has an entry for each token read since the previous event, if the request asks for them."""

    done: int
    total: int
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """The text and the tokens that one step added. `text` may be empty while a character or a stop string is
    incomplete.

    `ends` are the ends of the tokens in `text`: token i is text[ends[i-1]:ends[i]]. A piece without tokens has text
    that was held back before, and belongs to the newest token. `logprobs` has an entry for each token if the
    request asks for them."""

    text: str
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    statistics: Statistics
    ends: tuple[int, ...] = ()
    trace: StepTrace = NO_TRACE
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class Called:
    """All calls of tools in the reply so far, some of which may have changed."""

    calls: tuple[CalledTool, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a reply that has ended without an error. The reply's text is that of all its pieces."""

    reason: StopReason
    statistics: Statistics
    model: ModelInfo
    decoder: DecoderName


RefusedPart = Literal["", "options", "prompt", "grammar"]


@dataclass(frozen=True, slots=True)
class Failed:
    """The last event of a reply that ended with an error, which `sentence` explains. Earlier text stays.

    `refused` names the part of the request that is impossible, if any; the same request would fail again."""

    sentence: str
    refused: RefusedPart = ""


Event = Loading | Prefilling | Piece | Called | Finished | Failed


class EventSink(Protocol):
    """Receives the events of a request."""

    @property
    def is_stopping(self) -> bool: ...

    def append(self, event: Event) -> None: ...


EnginePhase = Literal["starting", "loading", "ready", "busy", "failed", "closed"]


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The state of the engine. `note` is a sentence for the user; `model` is the loaded model, if any.

    `peak` is the model's peak memory in bytes, 0 if it is unknown."""

    phase: EnginePhase
    note: str = ""
    model: ModelInfo | None = None
    peak: int = 0
