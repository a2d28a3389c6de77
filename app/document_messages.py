"""Values about documents: what a collection holds, how far its indexing is, and where an answer's words came from.

A document is text that somebody pasted, or that was read from a file; the text is kept whole. A passage is a piece
of it that is searched, retrieved and cited, known by its place in the text:

    text[passage.start : passage.end] == passage.text

so that a citation can light up the exact words in the original.
"""

from dataclasses import dataclass
from typing import Literal

from app.validation import require, require_one_of

DocumentState = Literal["waiting", "reading", "indexing", "ready", "failed", "cancelled"]
"""How far a document is. It can be searched from `ready` on; what failed or was cancelled can be tried again."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents that are asked together; `characters` and `passages` of those that are ready."""

    id: int
    name: str
    documents: int = 0
    characters: int = 0
    passages: int = 0

    def __post_init__(self) -> None:
        require(bool(self.name.strip()), "a collection must have a name", self.name)


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a list shows it.

    `source` is where it came from ("pasted", or the file's name), `note` what is to be told: why it failed, or what
    was left out. `done` of `total` say how far it is (pages, then passages); `embedded` passages have a vector."""

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
    """A passage that was found: its scores and the ranks they gave it (from 1; 0: not found that way).

    `bm25` is the higher the better, `share` how much of the question is in the passage by its words, `similarity`
    the cosine to the question, `score` the two merged."""

    passage: Passage
    score: float
    bm25: float = 0.0
    bm25_rank: int = 0
    similarity: float = 0.0
    similarity_rank: int = 0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Citation:
    """A source of an answer as it is kept with it: [number] in the answer, and where the words stand.

    The words themselves stay in their document: who deletes it deletes them. `passage` finds them where they went
    when the document has changed since, `within` it the first word; 0 for a document that was given whole.
    Such a one has a `stamp` of its text: another text is another source ("" in answers of older apps)."""

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
    """The tokens of a prompt by what they are, those kept for the reply, and how many the context holds."""

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
    question, or nothing that was found has room, and the answer says so."""

    searched: str
    cited: tuple[Citation, ...] = ()
    is_whole: bool = False
    left_out: int = 0
    budget: TokenBudget | None = None
