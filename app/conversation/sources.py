"""Which passages are put before the model for one question, and how much room they get.

The rest of the prompt comes first: system prompt, earlier turns, the question, and what is kept for the reply. What
is left belongs to the sources, and never less than a quarter of the context: a long chat is cut, or asked about,
rather than its documents ignored.

    context 1,024   reply 256   chat 200   ->   sources 568: three of at most 189 tokens

Collections that fit whole are given whole. Otherwise the passages that search finds, best first, as many as fit; in
a small context each is narrowed to the sentences around what is asked for, so that several have room.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from app.conversation.source_prompt import asked_text, quoted
from app.document_messages import Citation, Passage, PassageHit, Sources, TokenBudget
from app.documents.search.snippets import snippet
from app.documents.text_table import digest_of, stamp_of
from app.messages import Message

MOST_SOURCES = 6
FEW_SOURCES = 3
"""So many find room in any context: where whole passages would not, each is narrowed to what is asked for."""
MOST_WHOLE = 16_000
"""Tokens: what would be read longer than this is searched instead, even where the context holds it."""
CHARACTERS_PER_TOKEN = 6
"""More than texts have: what is longer is surely too long, and need not be counted."""
LEAST_CHARACTERS = 80
"""A passage narrowed further than this says nothing."""


class Library(Protocol):
    """What conversations need of the documents."""

    def search(self, collections: Sequence[int], question: str, limit: int = 8) -> tuple[PassageHit, ...]:
        """Passages near enough to the question, best first."""

    def whole(self, collections: Sequence[int], most_characters: int) -> tuple[Passage, ...]:
        """Each document as one passage; none where they are longer together."""

    def words(self, cited: Citation) -> str:
        """What a citation stands for. Raises DocumentNotFound."""


@dataclass(frozen=True, slots=True)
class Room:
    """The prompt's room in tokens, and how messages are counted."""

    context: int
    reply: int
    count: Callable[[tuple[Message, ...]], int]

    def for_sources(self, taken: int) -> int:
        """What is left to sources beside `taken` tokens of chat and question."""
        free = self.context - self.reply
        return max(free - taken, free // 4)


@dataclass(frozen=True, slots=True)
class Consulted:
    """A question, and what was put before it. `sources` is None where no documents were asked."""

    question: str
    sources: Sources | None = None
    passages: tuple[str, ...] = ()

    @property
    def is_in_vain(self) -> bool:
        """Whether documents were asked and brought nothing: nothing is near enough, or has room."""
        return self.sources is not None and not self.sources.cited

    @property
    def message(self) -> Message:
        """The question as the model reads it."""
        return Message("user", asked_text(self.passages, self.question))

    @property
    def texts(self) -> tuple[str, ...]:
        """The passages as they stand in the prompt: what the pool may learn."""
        return tuple(map(quoted, self.passages))


def consult(
    library: Library,
    collections: Sequence[int],
    searched: str,
    question: str,
    before: tuple[Message, ...],
    room: Room,
) -> Consulted:
    """Ask the collections for what was `searched` and put it before the question, behind `before`."""
    message = Message("user", question)
    taken = room.count((*before, message))
    space = _Space(question, room, room.for_sources(taken))
    whole = library.whole(collections, min(space.tokens, MOST_WHOLE) * CHARACTERS_PER_TOKEN)
    if whole and space.holds([passage.text for passage in whole]):
        found: Sequence[PassageHit] = [PassageHit(passage, 1.0) for passage in whole]
        kept, is_whole = list(found), True
    else:
        found = library.search(collections, searched, MOST_SOURCES)
        kept, is_whole = _fitting(found, searched, space), False
    passages = tuple(one.passage.text for one in kept)
    budget = _budget(before, message, space.tokens_of(passages), room)
    starts = {one.passage.id: one.passage.start for one in found}
    cited = tuple(_cited(number, one, starts) for number, one in enumerate(kept, 1))
    return Consulted(question, Sources(searched, cited, is_whole, len(found) - len(kept), budget), passages)


def consult_again(library: Library, sources: Sources, question: str) -> Consulted:
    """The question with the same passages as before. Raises DocumentNotFound when one has gone."""
    passages = tuple(library.words(cited) for cited in sources.cited)
    return Consulted(question, sources, passages)


@dataclass(frozen=True, slots=True)
class _Space:
    """The room that passages have before a question."""

    question: str
    room: Room
    tokens: int

    def tokens_of(self, passages: Sequence[str]) -> int:
        asked, alone = (
            self.room.count((Message("user", asked_text(texts, self.question)),)) for texts in (passages, ())
        )
        return asked - alone

    @property
    def share(self) -> int:
        """The tokens that one of several sources may take."""
        return self.tokens // FEW_SOURCES

    def holds(self, passages: Sequence[str]) -> bool:
        return self.tokens_of(passages) <= min(self.tokens, MOST_WHOLE)


def _fitting(found: Sequence[PassageHit], searched: str, space: _Space) -> list[PassageHit]:
    """As many as fit, best first, each narrowed to its share of the room."""
    kept: list[PassageHit] = []
    for one in found:
        narrow = replace(one, passage=_narrowed(one.passage, searched, space))
        if space.holds([*(each.passage.text for each in kept), narrow.passage.text]):
            kept.append(narrow)
    return kept


def _narrowed(passage: Passage, searched: str, space: _Space) -> Passage:
    """The passage, or what of it is about the question and takes no more than its share."""
    most, kept = len(passage.text), passage
    while (tokens := space.tokens_of([kept.text])) > space.share and most > LEAST_CHARACTERS:
        most = max(LEAST_CHARACTERS, min(most - 1, len(kept.text) * space.share // tokens))
        kept = snippet(passage, searched, most)
    return kept


def _cited(number: int, found: PassageHit, starts: Mapping[int, int]) -> Citation:
    """The source of what was kept of a passage; `starts` say where each began before it was narrowed."""
    passage = found.passage
    return Citation(
        number,
        passage.document,
        passage.title,
        passage.start,
        passage.end,
        found.bm25,
        found.similarity,
        passage.id,
        passage.start - starts[passage.id] if passage.id else 0,
        "" if passage.id else stamp_of(digest_of([passage.text])),
    )


def _budget(before: tuple[Message, ...], message: Message, sources: int, room: Room) -> TokenBudget:
    head = before[:1] if before and before[0].role == "system" else ()
    asked = room.count((message,))
    # With the question behind it: some templates take no system prompt alone.
    system = room.count((*head, message)) - asked
    history = max(0, room.count((*before, message)) - system - asked)
    return TokenBudget(system, sources, history, asked, room.reply, room.context)
