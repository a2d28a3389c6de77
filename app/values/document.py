"""Values about documents: collections, passages, and the sources of an answer.

A passage is a part of a document that is searched and cited: text[passage.start : passage.end] == passage.text.
"""

from dataclasses import dataclass, replace
from typing import Literal

from app.values.validation import require, require_one_of

DocumentState = Literal["waiting", "reading", "indexing", "ready", "failed", "cancelled"]
"""The state of a document. A "ready" document can be searched; a failed or cancelled document can be retried."""
UNFINISHED: tuple[DocumentState, ...] = ("waiting", "reading", "indexing")
"""The states of documents that are to be imported or indexed, and cannot be searched yet."""
ATTACHED = "Attached: "
"""The prefix in the name of a collection that belongs to a chat."""
MARGINS = "Menus and margins of the page"
"""The heading of a web page's menus and margins. A search finds their text, but no answer cites it."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents that are searched together. `characters` and `passages` are those of the ready documents."""

    id: int
    name: str
    documents: int = 0
    characters: int = 0
    passages: int = 0

    def __post_init__(self) -> None:
        require(bool(self.name.strip()), "a collection must have a name", self.name)

    @property
    def is_attached(self) -> bool:
        """Whether the collection belongs to a chat, and is deleted with the chat."""
        return self.name.startswith(ATTACHED)


@dataclass(frozen=True, slots=True)
class Document:
    """A document's entry in a list, without its text.

    `source` is "pasted" or the file's name. `note` explains why it failed, or what was skipped. `done` of `total`
    is its progress (pages, then passages); `embedded` is the number of passages with a vector. `replaced` is the
    time at which its text replaced an older version that is kept, or 0."""

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
    """A part of a document; `heading` is the path of headings above the passage, "" if it has none.

    `language` is the document's language; "" if it is not known."""

    id: int
    document: int
    title: str
    start: int
    end: int
    text: str
    heading: str = ""
    language: str = ""

    def __post_init__(self) -> None:
        require(
            0 <= self.start < self.end,
            "a passage must start at 0 or later and before its end",
            (self.start, self.end),
        )


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A found passage with its scores and its ranks in both searches (from 1; 0 if a search did not find it).

    `bm25` is higher for better passages, `share` is the share of the question's words that are in the passage,
    `similarity` is the cosine with the question, `score` is the fused score."""

    passage: Passage
    score: float
    bm25: float = 0.0
    bm25_rank: int = 0
    similarity: float = 0.0
    similarity_rank: int = 0
    share: float = 0.0


LITTLE_IN_COMMON = "The sentence has little in common with this source."


@dataclass(frozen=True, slots=True)
class Citation:
    """A source of an answer, stored with the answer: its [number], and the position of the cited words.

    The words are stored only in their document, so deleting the document deletes them. `passage` and the offset
    `within` the passage find the words after the document has changed. For a document that was given whole
    `passage` is 0, and `stamp` is a digest of its text, which shows whether the text has changed."""

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
    """The tokens of each part of a prompt, the tokens reserved for the reply, and the size of the context.

    If `context` is unknown (0), all other numbers are estimates."""

    system: int = 0
    sources: int = 0
    history: int = 0
    question: int = 0
    reply: int = 0
    context: int = 0


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources that were put into the prompt for one question.

    `searched` is the query, which is the question made self-contained. `is_whole` is whether the model got the
    collections as a whole; `left_out` is how many passages were found but did not fit. `cited` is empty if no
    passage is near enough to the question or if none fits; the app's answer says which. `unsupported` are the
    indices (from 0) of the answer's markers [n] whose sentence is not supported by source n. `missing` has, for
    each such marker, the words of the sentence that the source lacks ("7:15, Anna"), or "" if sentence and source
    have little in common."""

    searched: str
    cited: tuple[Citation, ...] = ()
    is_whole: bool = False
    left_out: int = 0
    budget: TokenBudget | None = None
    unsupported: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def unchecked(self) -> "Sources":
        """The sources without the result of the citation check."""
        return replace(self, unsupported=(), missing=())

    def doubt(self, place: int) -> str:
        """Return why the marker at this index is doubtful; "" if its source supports the sentence."""
        if place not in self.unsupported:
            return ""
        at = self.unsupported.index(place)
        missing = self.missing[at] if at < len(self.missing) else ""
        is_one = ", " not in missing
        return f"{missing} {'is' if is_one else 'are'} not in the source." if missing else LITTLE_IN_COMMON

    @property
    def is_empty(self) -> bool:
        """Whether documents were searched and no passage was given to the model."""
        return not self.cited
