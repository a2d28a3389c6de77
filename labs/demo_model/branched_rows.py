"""Makes training rows in which several questions share their sources.

Each question sees the sources, but no other question.

    tokens     s s s s s s | q q a a a | q q a a | padding
    positions  0 1 2 3 4 5 | 6 7 8 9 . | 6 7 8 9 | 0
    branches   0 0 0 0 0 0 | 1 1 1 1 1 | 2 2 2 2 | -1

So every answer is learned at the position that it would have in a prompt of one question. A row also has labels for
deep supervision (`deep_supervision.py`).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

import torch
from torch import Tensor

from app.values.messages import Message
from labs.demo_model.copying import CopyingTasks, Lookup, Sources
from labs.demo_model.tokenizer import BEGIN, END, TURN, as_text

TRUNK, PADDING = 0, -1
UNKNOWN = -1
FIRST_WEIGHT, NUMBER_WEIGHT = 3.0, 2.0
"""The weights of an answer's first token, which chooses the sentence, and of the source's number. Others are 1."""
MOST_TRUNK = 0.72
"""Maximum share of a row that the prompt with its sources takes; the rest is for questions."""
COLUMNS = ("ids", "positions", "branches", "weights", "numbers", "firsts", "copied")
FILLING = (0, 0, PADDING, 0.0, UNKNOWN, UNKNOWN, UNKNOWN)


class Encoding(Protocol):
    """Token ids, and the start and end of each token's characters, as the tokenizers library returns them."""

    ids: list[int]
    offsets: list[tuple[int, int]]


Encode = Callable[[str], Encoding]


@dataclass(frozen=True, slots=True)
class Hop:
    """Positions in a row between which attention must hop to answer a question (`deep_supervision.py`).

    `asked` and `found` are where the asked word ends in the question and in the sources; `end` is the last token
    before the answer. `numbering` is the token before the source's number, or near the end of a short answer."""

    asked: int
    found: int
    end: int
    numbering: int


@dataclass(slots=True)
class Row:
    """The tokens of a row, with the weight of the loss of predicting each token, and labels.

    For a token of a source, `numbers` has the source's number, and `firsts` the first token of its sentence. For
    the end of an asked word, both describe the answer. If an answer copies its next token, `copied` is that
    token's position in the sources. Other labels are -1. `hops` has a Hop for each answerable question."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    branches: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    copied: list[int] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)

    def add(self, ids: Sequence[int], weights: Sequence[float], branch: int, start: int = 0) -> None:
        """Append consecutive tokens of one branch from this position on, without labels yet."""
        self.ids += ids
        self.weights += weights
        self.branches += [branch] * len(ids)
        self.positions += range(start, start + len(ids))
        self.numbers += [UNKNOWN] * len(ids)
        self.firsts += [UNKNOWN] * len(ids)
        self.copied += [UNKNOWN] * len(ids)

    def cut(self, length: int) -> "Row":
        """Return the row truncated or padded to exactly this many tokens."""
        columns = {
            name: (getattr(self, name) + [empty] * (length - len(self.ids)))[:length]
            for name, empty in zip(COLUMNS, FILLING, strict=True)
        }
        return replace(self, **columns)


@dataclass(frozen=True, slots=True)
class BranchedBatch:
    """mask: [rows, 1, length, length], true for each token that a token sees; hops: [hops, 5], the row and the four
    positions of each Hop; the other tensors: [rows, length]."""

    ids: Tensor
    positions: Tensor
    branches: Tensor
    mask: Tensor
    targets: Tensor
    weights: Tensor
    numbers: Tensor
    firsts: Tensor
    copied: Tensor
    hops: Tensor


def copying_row(
    tasks: CopyingTasks, encode: Encode, length: int, characters: float, share_short: float = 0.0
) -> Row:
    """Make a row of sources of about this many characters, and as many questions about them as fit.

    The share `share_short` of the answers stops after two to four tokens, which show which sentence is right."""
    while True:
        sources, system = tasks.sources(round(characters)), tasks.system()
        before = f"{TURN}system\n{system}{END}\n" if system else ""
        trunk = _Trunk(sources, f"{BEGIN}{before}{TURN}user\n", encode)
        row = trunk.row()
        for branch, lookup in zip(count(1), tasks.lookups(sources), strict=False):
            most = tasks.rng.randint(2, 4) if tasks.rng.random() < share_short else length
            if not trunk.add_lookup(row, lookup, branch, length, most):
                break
        if trunk.length < MOST_TRUNK * length and len(row.ids) > trunk.length:
            return row.cut(length)


class _Trunk:
    """The part of a prompt before the question, which all questions of a row share."""

    def __init__(self, sources: Sources, before: str, encode: Encode) -> None:
        self._text = before + sources.prompt()
        self._sources = sources
        self._encode = encode
        self._encoded = encode(self._text)
        self._begin = len(before)
        self.length = len(self._encoded.ids)

    def row(self) -> Row:
        """Return a row of the part's tokens, labelled with the numbers of sources and first tokens of sentences."""
        row = Row()
        row.add(self._encoded.ids, [0.0] * self.length, TRUNK)
        numbers, firsts = [UNKNOWN] * len(self._text), [UNKNOWN] * len(self._text)
        at = self._begin
        for number, passage in enumerate(self._sources.texts, 1):
            at = self._text.index(f"[{number}] {passage}", at) + len(f"[{number}] ")
            numbers[at : at + len(passage)] = [number] * len(passage)
            for sentence in self._sources.sentences[number - 1]:
                begin = self._text.index(sentence, at)
                firsts[begin : begin + len(sentence)] = [self._encode(sentence).ids[0]] * len(sentence)
            at += len(passage)
        row.numbers = [numbers[end - 1] for _, end in self._encoded.offsets]
        row.firsts = [firsts[end - 1] for _, end in self._encoded.offsets]
        return row

    def add_lookup(self, row: Row, lookup: Lookup, branch: int, length: int, most: int) -> bool:
        """Add a question and `most` tokens of its answer to the row. Returns False if the answer does not fit."""
        text = f" {lookup.question}{END}\n{TURN}assistant\n"
        question, answer = self._encode(text), self._encode(lookup.answer + END)
        begin = len(row.ids)
        if begin + len(question.ids) + len(answer.ids) > length:
            return False
        weights = [0.0] * len(question.ids) + _answer_weights(lookup.answer, len(answer.ids))[:most]
        row.add([*question.ids, *answer.ids[:most]], weights, branch, self.length)
        if lookup.number:
            asked = begin + _last_token(question, text, lookup.asked, 0)
            end = begin + len(question.ids) - 1
            found = _last_token(self._encoded, self._text, lookup.asked, self._begin)
            row.hops.append(Hop(asked, found, end, max(end, len(row.ids) - 4)))
            row.numbers[asked], row.firsts[asked] = lookup.number, answer.ids[0]
            copied = self._copied(lookup, answer)[:most]
            row.copied[end : end + len(copied)] = copied
        return True

    def _copied(self, lookup: Lookup, answer: Encoding) -> list[int]:
        """Return the positions in the sources at which the tokens of the answer's sentence are."""
        sentence = lookup.answer[: lookup.answer.rindex(" [")]
        begin = self._text.index(sentence, self._begin)
        ends = [stop for _, stop in self._encoded.offsets]
        return [bisect_left(ends, begin + stop) for _, stop in answer.offsets if stop <= len(sentence)]


def _last_token(encoded: Encoding, text: str, words: str, begin: int) -> int:
    """Return the position of the token that ends the words in the text, whatever their capitals."""
    end = text.lower().index(words.lower(), begin) + len(words)
    return next(place for place, (_, stop) in enumerate(encoded.offsets) if stop >= end)


def _answer_weights(answer: str, length: int) -> list[float]:
    """Return the weights of an answer's tokens. Answers from a source end with its number, "]" and END."""
    weights = [FIRST_WEIGHT] + [1.0] * (length - 1)
    if answer.endswith("]"):
        weights[-3] = NUMBER_WEIGHT
    return weights


def chat_row(conversations: Iterator[Sequence[Message]], encode: Encode, length: int) -> Row:
    """Return a row of conversations that do not see each other. The last conversation is truncated if necessary."""
    row = Row()
    for branch in count(1):
        if len(row.ids) >= length:
            break
        messages = [{"role": one.role, "content": one.content} for one in next(conversations)]
        ids = encode(as_text(messages)).ids
        row.add(ids, [0.0] + [1.0] * (len(ids) - 1), branch)
    return row.cut(length)


def batch_of(rows: Sequence[Row]) -> BranchedBatch:
    """Stack rows of one length, with the mask and the targets of their tokens."""
    ids, positions, branches, weights, numbers, firsts, copied = (
        torch.tensor([getattr(row, name) for row in rows]) for name in COLUMNS
    )
    length = ids.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    mask = earlier & ((branches[:, :, None] == branches[:, None, :]) | (branches[:, None, :] == TRUNK))
    # The roll makes a row's first token the target of its last token, so its weight is 0. The first tokens of other
    # branches have the weight 0 already.
    weights[:, 0] = 0.0
    targets, weights = ids.roll(-1, 1), weights.roll(-1, 1)
    hops = [
        (at, one.asked, one.found, one.end, one.numbering) for at, row in enumerate(rows) for one in row.hops
    ]
    return BranchedBatch(
        ids, positions, branches, mask[:, None], targets, weights, numbers, firsts, copied,
        torch.tensor(hops).view(-1, 5),
    )  # fmt: skip
