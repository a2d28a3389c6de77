"""Values of stored chats: summaries for the sidebar, threads for the page, and the provenance of replies.

A chat is a tree of messages, of which one path is shown. Editing a question or regenerating an answer adds a
sibling; the versions of a message are its siblings. A `ChatVersion` is the state of a chat that a page has seen, so
that an outdated page cannot change what it does not show.
"""

from dataclasses import dataclass, field
from typing import Literal

from app.values.document import Sources
from app.values.json_answers import JsonAnswers
from app.values.logits import Grammar
from app.values.messages import (
    DecoderName,
    ModelInfo,
    Options,
    Origin,
    Role,
    Sampling,
    Statistics,
    StopReason,
)
from app.values.validation import require, require_one_of

WritingState = Literal["done", "writing", "stopped", "failed", "interrupted"]
"""An interrupted message was being written when the app ended."""


@dataclass(frozen=True, slots=True)
class ChatVersion:
    """A state of a chat: every change of its messages increments `number`. Chat 0 does not exist yet."""

    chat: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """A chat's system prompt, the document collections that are searched for it, and whether its answers are JSON.

    A preset may have sampling, too, for the controls; it has no collections, and says nothing of JSON."""

    system: str = ""
    sampling: Sampling | None = None
    collections: tuple[int, ...] = ()
    json_answers: JsonAnswers = field(default_factory=JsonAnswers)


@dataclass(frozen=True, slots=True)
class ChatPreset:
    """Settings with a name, to start chats with."""

    name: str
    settings: ChatSettings

    def __post_init__(self) -> None:
        require(bool(self.name.strip()), "a preset must have a name", self.name)


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """A chat as the sidebar lists it; `updated` in seconds since 1970."""

    id: int
    title: str
    folder: str = ""
    is_pinned: bool = False
    updated: float = 0.0


@dataclass(frozen=True, slots=True)
class ChatSearchResult:
    """A chat in which words were found. `excerpt` has each found word between \x02 and \x03."""

    summary: ChatSummary
    excerpt: str


@dataclass(frozen=True, slots=True)
class TokenMark:
    """Where in a reply's text a token ends, who proposed it, and its step (0: the prefill)."""

    end: int
    origin: Origin
    step: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a reply was made: enough to reproduce it. `grammar` is what it had to match, if anything."""

    model: ModelInfo
    options: Options
    decoder: DecoderName
    reason: StopReason
    statistics: Statistics
    app: str = ""
    grammar: Grammar | None = None


@dataclass(frozen=True, slots=True)
class MessageContent:
    """What a message says, as far as it is written. `thought` are the seconds of its <think> block; `sources` are
    the passages in its prompt, None where no documents were searched."""

    text: str = ""
    state: WritingState = "writing"
    note: str = ""
    marks: tuple[TokenMark, ...] = ()
    provenance: Provenance | None = None
    thought: float = 0.0
    sources: Sources | None = None

    def __post_init__(self) -> None:
        require_one_of(WritingState, "state", self.state)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message on the path that is shown. `versions` are the ids of its siblings and itself, oldest first."""

    id: int
    role: Role
    content: MessageContent
    created: float = 0.0
    versions: tuple[int, ...] = field(default_factory=tuple)

    @property
    def text(self) -> str:
        """The visible text of the message."""
        return self.content.text


@dataclass(frozen=True, slots=True)
class Thread:
    """The shown path of a chat, or its newest part: `earlier` messages come before it."""

    version: ChatVersion
    title: str = ""
    settings: ChatSettings = field(default_factory=ChatSettings)
    messages: tuple[StoredMessage, ...] = ()
    earlier: int = 0


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import: how many chats are new, and how many were here already, word for word."""

    new: int
    known: int
