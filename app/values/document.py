"""Values about documents: collections, passages, and the sources of an answer.

A document is a pasted text, or the text of a file. A passage is a part of it that is searched and cited. It is
known by its place in the text, so that a citation can highlight the exact words:

    text[passage.start : passage.end] == passage.text
"""

from dataclasses import dataclass
from typing import Literal

from app.values.validation import require, require_one_of

DocumentState = Literal["waiting", "reading", "indexing", "ready", "failed", "cancelled"]
"""The state of a document. It can be searched when it is `ready`, and retried when it failed or was cancelled."""


ATTACHED = "Attached: "
"""How the name of a collection begins that belongs to a chat."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents that are searched together; `characters` and `passages` count those that are ready."""

    id: int
    name: str
    documents: int = 0
    characters: int = 0
    passages: int = 0

    def __post_init__(self) -> None:
        require(bool(self.name.strip()), "a collection must have a name", self.name)

    @property
    def is_attached(self) -> bool:
        """Whether it belongs to a chat, and is deleted with it."""
        return self.name.startswith(ATTACHED)


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a list shows it.

    `source` is "pasted" or the file's name. `note` says why it failed, or what was skipped. `done` of `total` is
    its progress (pages, then passages); `embedded` passages have a vector. `replaced` is when its text took
    the place of an older version that is kept, 0 for never."""

    id: int
    collection: int
    title: str
    source: str = "pasted"
    state: DocumentState = "waiting"
    note: str = ""
    characters: int = 0
    passages: int = 0
    embedded: int = 0
    done: int = 0
    total: int = 0
    added: float = 0.0
    replaced: float = 0.0

    def __post_init__(self) -> None:
        require_one_of(DocumentState, "state", self.state)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document; `heading` is the path of headings above it, "" where there is none."""

    id: int
    document: int
    title: str
    start: int
    end: int
    text: str
    heading: str = ""

    def __post_init__(self) -> None:
        require(0 <= self.start < self.end, "a passage must have a place in its text", (self.start, self.end))


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A found passage with its scores and ranks (from 1; 0: not found that way).

    `bm25` is higher for better passages, `share` is how much of the question's words are in the passage,
    `similarity` is the cosine to the question, `score` is the fused score."""

    passage: Passage
    score: float
    bm25: float = 0.0
    bm25_rank: int = 0
    similarity: float = 0.0
    similarity_rank: int = 0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Citation:
    """A source of an answer, as it is stored with it: [number] in the answer, and the place of the words.

    The words are stored in their document alone, so deleting it deletes them. `passage` and the offset `within` it
    find the words after the document has changed; `passage` is 0 for a document that was given whole. Such a
    citation has a `stamp` of its text: a changed text is another source ("" in answers of older versions)."""

    number: int
    document: int
    title: str
    start: int
    end: int
    bm25: float = 0.0
    similarity: float = 0.0
    passage: int = 0
    within: int = 0
    stamp: str = ""

    def __post_init__(self) -> None:
        require(self.number >= 1, "sources are numbered from 1", self.number)


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The tokens of a prompt by part, those reserved for the reply, and the size of the context.

    Where that is unknown, 0, the others are estimated."""

    system: int = 0
    sources: int = 0
    history: int = 0
    question: int = 0
    reply: int = 0
    context: int = 0


@dataclass(frozen=True, slots=True)
class Sources:
    """What was put before the model for one question.

    `searched` is the question as it was searched, made self-contained; `is_whole` says that the collections were
    given whole; `left_out` passages were found but did not fit. No sources at all: nothing is near enough to the
    question, or nothing that was found has room, and the answer says so. `unsupported` are the answer's markers
    [n], counted from 0, whose sentence has nothing in common with source n."""

    searched: str
    cited: tuple[Citation, ...] = ()
    is_whole: bool = False
    left_out: int = 0
    budget: TokenBudget | None = None
    unsupported: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether documents were searched in vain."""
        return not self.cited
