"""Passages out of pieces: as long as they may be, cut where the text itself makes a break.

A passage takes pieces until it is full. Then it ends before the piece that begins best among those of its later
half (a section rather than a paragraph, a paragraph rather than a sentence), and the next one begins a sentence or
two earlier, so that what is said across the border is somewhere said as a whole:

    [One. Two. Three. Fo|ur. Five.]      full behind "Four."
    [One. Two. Three.] [Three. Four. Five.]

A new section begins a new passage, unless the one before is very short.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from app.documents.passages.lines import lines_of
from app.documents.passages.pieces import Piece, Rank
from app.documents.passages.scanning import Scanner
from app.documents.passages.writing import scan_writing

MOST = 1_500
"""Weight of a passage: 200 to 400 tokens of most tokenizers."""
EARLIEST = MOST // 2
SHORT_SECTION = 250
"""Weight up to which a section goes together with the next."""
OVERLAP = 240
"""Weight of what is said again at most."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A passage's place in its text, its words, and the path of headings above it."""

    start: int
    end: int
    text: str
    heading: str = ""


def cut(parts: Iterable[str], scan: Scanner = scan_writing) -> Iterator[Cut]:
    """The passages of a text that comes in parts, wherever those end."""
    draft = _Draft()
    for piece in scan(lines_of(parts)):
        if piece.rank == Rank.SECTION and draft.is_section():
            yield from draft.end(len(draft.pieces), piece.rank)
        while draft.is_full_with(piece):
            yield from draft.end(*draft.best_end(piece.rank))
        draft.add(piece)
    yield from draft.end(len(draft.pieces), Rank.SECTION)


class _Draft:
    """The pieces of the passage that grows; the first `said` of them are in the passage before, too."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._said = 0
        self._weight = 0

    def is_section(self) -> bool:
        """Whether this stands by itself when a new section begins."""
        new = self._weight - sum(piece.weight for piece in self.pieces[: self._said])
        return new > SHORT_SECTION or (self._said > 0 and new > 0)

    def is_full_with(self, piece: Piece) -> bool:
        """Whether there is something to end, and this piece is too much."""
        return len(self.pieces) > self._said and self._weight + piece.weight > MOST

    def best_end(self, behind: Rank) -> tuple[int, Rank]:
        """Before which piece the passage had best end, and how that begins; the next piece is of rank `behind`."""
        ranks = [*(piece.rank for piece in self.pieces), behind]
        weights = list(accumulate(piece.weight for piece in self.pieces))
        ends = [(ranks[end], end) for end in range(self._said + 1, len(ranks))]
        late = [one for one in ends if weights[one[1] - 1] >= EARLIEST] or ends[-1:]
        rank, end = max(late)
        if rank < Rank.SENTENCE:  # rather a short passage than a cut sentence
            rank, end = max(
                (one for one in ends if weights[one[1] - 1] >= EARLIEST // 2), default=(rank, end)
            )
        return end, rank

    def end(self, end: int, next_rank: Rank) -> Iterator[Cut]:
        """The passage of the first pieces; the draft goes on behind them, or a little earlier."""
        if any(not piece.text.isspace() for piece in self.pieces[self._said : end]):
            yield _cut_of(self.pieces[:end], _heading(self.pieces[self._said : end]))
        begin = end if next_rank == Rank.SECTION else self._overlap(end, next_rank)
        self.pieces = self.pieces[begin:]
        self._said = end - begin
        self._weight = sum(piece.weight for piece in self.pieces)

    def add(self, piece: Piece) -> None:
        """Take a piece; what would only be said again makes room for it."""
        if self._weight + piece.weight > MOST:
            self.pieces, self._said, self._weight = [], 0, 0
        self.pieces.append(piece)
        self._weight += piece.weight

    def _overlap(self, end: int, next_rank: Rank) -> int:
        """Where the next passage begins: at the earliest sentence that is near enough.

        In the middle of a sentence that is too long any piece will do."""
        least = Rank.SENTENCE if next_rank >= Rank.SENTENCE else Rank.WORD
        begin, weight = end, 0
        for at in range(end - 1, 0, -1):
            weight += self.pieces[at].weight
            if weight > OVERLAP or self.pieces[at].rank == Rank.SECTION:
                break
            begin = at if self.pieces[at].rank >= least else begin
        return begin


def _cut_of(pieces: list[Piece], heading: str) -> Cut:
    text = "".join(piece.text for piece in pieces)
    start = pieces[0].start + len(text) - len(text.lstrip())
    words = text.strip()
    return Cut(start, start + len(words), words, heading)


def _heading(pieces: list[Piece]) -> str:
    """The headings above the first words that are no heading themselves."""
    bodies = (piece for piece in pieces if piece.rank != Rank.SECTION and not piece.text.isspace())
    return next(bodies, pieces[-1]).heading
