"""Values of stored chats: summaries for the sidebar, threads for the page, and how replies were made.

A chat is a tree of messages, of which one path is shown. Editing a question or regenerating an answer adds a
sibling; the versions of a message are its siblings.
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
from app.values.tools import CalledTool
from app.values.validation import require, require_one_of

SUMMARY_REQUEST = (
    "Summarise our conversation so far in a few sentences. Keep names, numbers, decisions and open questions."
)
"""The request for a summary. In later prompts, request and summary replace the summarised messages."""
WritingState = Literal["done", "writing", "stopped", "failed", "interrupted"]
"""The state of a message. It is "interrupted" if it was being written when the app ended."""


@dataclass(frozen=True, slots=True)
class ChatVersion:
    """A state of a chat. `number` grows by one with each change of its messages, but not with the growing text of a
    reply. `chat` is 0 for a chat that is not stored yet."""

    chat: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """A chat's system prompt, the document collections that are searched for it, and whether its answers are JSON.
    `tools` are the names of the tool servers, and of the app's own tools, that the model may use.

    `sampling` has the values of the page's sampling controls. A preset uses only `system` and `sampling`."""

    system: str = ""
    sampling: Sampling | None = None
    collections: tuple[int, ...] = ()
    json_answers: JsonAnswers = field(default_factory=JsonAnswers)
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatPreset:
    """A system prompt and sampling settings with a name."""

    name: str
    settings: ChatSettings

    def __post_init__(self) -> None:
        require(bool(self.name.strip()), "a preset must have a name", self.name)


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """A chat as the sidebar lists it; `updated` is in seconds since 1970."""

    id: int
    title: str
    folder: str = ""
    is_pinned: bool = False
    updated: float = 0.0


@dataclass(frozen=True, slots=True)
class ChatSearchResult:
    """A chat in which words were found. `excerpt` has each found word between \x02 and \x03.

    `message` is the newest message with all words, or 0 if only the title has them."""

    summary: ChatSummary
    excerpt: str
    message: int = 0


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message that was typed while a reply was being written, and is to be sent later."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class TokenMark:
    """A token in a reply: its end in the text, its origin, and its step (0: the prefill)."""

    end: int
    origin: Origin
    step: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a reply was made, in enough detail to reproduce it. `grammar` is the grammar that the reply had to match,
    if any."""

    model: ModelInfo
    options: Options
    decoder: DecoderName
    reason: StopReason
    statistics: Statistics
    app: str = ""
    grammar: Grammar | None = None


@dataclass(frozen=True, slots=True)
class MessageContent:
    """A message as far as it is written. `thought` is the time of its <think> block in seconds; `sources` are the
    passages in its prompt, or None if no documents were searched. `note` explains a failure, or how the message
    was made. If there is a `summary`, later prompts contain it in place of this message and all messages before it.
    `calls` are the calls of tools in the text."""

    text: str = ""
    state: WritingState = "writing"
    note: str = ""
    marks: tuple[TokenMark, ...] = ()
    provenance: Provenance | None = None
    thought: float = 0.0
    sources: Sources | None = None
    summary: str = ""
    calls: tuple[CalledTool, ...] = ()

    def __post_init__(self) -> None:
        require_one_of(WritingState, "state", self.state)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a chat. `versions` are the ids of the message and its siblings, the oldest first."""

    id: int
    role: Role
    content: MessageContent
    created: float = 0.0
    versions: tuple[int, ...] = field(default_factory=tuple)

    @property
    def text(self) -> str:
        return self.content.text


@dataclass(frozen=True, slots=True)
class Thread:
    """The shown path of a chat, or its newest part; `earlier` is the number of messages before that part.

    `forked_from` is the chat of which this chat is a copy, if that chat still exists."""

    version: ChatVersion
    title: str = ""
    settings: ChatSettings = field(default_factory=ChatSettings)
    messages: tuple[StoredMessage, ...] = ()
    earlier: int = 0
    forked_from: ChatSummary | None = None


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import: how many chats were added, and how many were stored already."""

    new: int
    known: int
