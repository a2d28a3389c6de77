"""Values about stored chats: what the sidebar lists, what a chat's page shows, and where a reply came from.

A chat is a tree of messages of which one path is shown. Editing a question or writing an answer anew adds a
sibling; the versions of a message are its siblings, and `place` says on which path and state of the chat
somebody stands, so that a page that fell behind cannot change what it does not see.
"""

from dataclasses import dataclass, field
from typing import Literal

from app.document_messages import Sources
from app.messages import DecoderName, ModelInfo, Options, Origin, Role, Sampling, Statistics, StopReason
from app.requiring import require, require_one_of

WritingState = Literal["done", "writing", "stopped", "failed", "interrupted"]
"""How far a message is: an interrupted one was being written when the app ended."""


@dataclass(frozen=True, slots=True)
class ChatVersion:
    """A chat in a certain state: every change of its messages counts the version up. Chat 0 is not made yet."""

    chat: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """How a chat is answered: its system prompt, and the collections of documents that it asks.

    A preset may bring sampling, too, for the controls; it has no collections."""

    system: str = ""
    sampling: Sampling | None = None
    collections: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatPreset:
    """A manner with a name, to begin chats with."""

    name: str
    manner: ChatSettings

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
    """A chat in which words were found; `excerpt` has each found word between \x02 and \x03."""

    line: ChatSummary
    excerpt: str


@dataclass(frozen=True, slots=True)
class TokenMark:
    """Where in a reply's text a token ends, who proposed it, and in which step it came (0: the prefill)."""

    end: int
    origin: Origin
    step: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a reply came from: enough to write it again."""

    model: ModelInfo
    options: Options
    decoder: DecoderName
    reason: StopReason
    statistics: Statistics
    app: str = ""


@dataclass(frozen=True, slots=True)
class MessageContent:
    """A reply as far as it is written. `thought` are the seconds its <think> block took; `sources` are what was put
    before the model, None where no documents were asked."""

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
    written: MessageContent
    created: float = 0.0
    versions: tuple[int, ...] = field(default_factory=tuple)

    @property
    def text(self) -> str:
        """What it says."""
        return self.written.text


@dataclass(frozen=True, slots=True)
class Thread:
    """The path of a chat that is shown, or its newest part: `earlier` messages stand before the first one."""

    place: ChatVersion
    title: str = ""
    manner: ChatSettings = field(default_factory=ChatSettings)
    messages: tuple[StoredMessage, ...] = ()
    earlier: int = 0


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What came of a file of chats: so many are new, and so many were here already, word for word."""

    new: int
    known: int
