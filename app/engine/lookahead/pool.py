"""The n-gram pool: which tokens followed which, newest first, whatever the source.

A line of text teaches all n-grams that end in its newest tokens, filed under their first token and, so that the
better match is asked first, under their first two. With ngram=3, the line 1 2 3 that has just got its 3 gives

    under (2,):  3        under (1, 2):  3        under (1,):  2 3   (which replaces 2: it has grown)

and candidates([..., 1, 2]) looks under (1, 2), then under (2,). A guess shorter than N-1 tokens is lengthened by
what most likely follows it. Nothing here is ever trusted: a guess only costs a row, the model has the last word.

Bound: `capacity` n-grams in all; beyond it those filed under the longest unused keys go.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.messages import Origin

NGram = tuple[int, ...]
LONGEST_KEY = 2
CAPACITY = 200_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A guess: these tokens may follow, says this source."""

    tokens: NGram
    origin: Origin


class Pool(Protocol):
    """Where drafts come from."""

    def __len__(self) -> int:
        """How many n-grams the pool holds."""

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        """File the n-grams that end in the last `new` tokens of a line of text."""

    def candidates(self, context: Sequence[int]) -> list[Candidate]:
        """Guesses of what follows, best first, none the beginning of another."""

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        """One likely line of `length` tokens behind a context, to start the window from."""


class NGramPool:
    """The pool of one reply: flat n-grams of up to N tokens, G candidates."""

    def __init__(self, ngram: int, guesses: int, capacity: int = CAPACITY) -> None:
        self._longest = ngram - 1
        self._guesses = guesses
        self._store = _Store(capacity, bucket=2 * max(guesses, 1))

    def __len__(self) -> int:
        return len(self._store)

    def learn(self, text: Sequence[int], new: int, origin: Origin) -> None:
        """File the n-grams that end in the last `new` tokens of a line of text."""
        for end in range(len(text) - new + 1, len(text) + 1):
            for key in range(1, LONGEST_KEY + 1):
                for follow in range(1, min(self._longest, end - key) + 1):
                    middle = end - follow
                    self._store.file(tuple(text[middle - key : middle]), tuple(text[middle:end]), origin)

    def candidates(self, context: Sequence[int]) -> list[Candidate]:
        """At most G guesses: longest match first, then newest first."""
        found: list[Candidate] = []
        for match in self._matches(context):
            if len(found) == self._guesses:
                break
            tokens = self._lengthened(match.tokens, context)
            if not any(_overlap(tokens, other.tokens) for other in found):
                found.append(Candidate(tokens, match.origin))
        return found

    def continuation(self, context: Sequence[int], length: int) -> list[int]:
        """The best match, then what best matches behind it; where nothing is known, the context once more."""
        line = list(context)
        while len(line) < len(context) + length:
            best = next(self._matches(line), None)
            line += best.tokens if best else [context[len(line) % len(context)]]
        return line[len(context) : len(context) + length]

    def _matches(self, context: Sequence[int]) -> Iterator[Candidate]:
        for key in range(min(LONGEST_KEY, len(context)), 0, -1):
            yield from self._store.newest(tuple(context[-key:]))

    def _lengthened(self, tokens: NGram, context: Sequence[int]) -> NGram:
        while len(tokens) < self._longest:
            best = next(self._matches((*context[-1:], *tokens)), None)
            if best is None:
                break
            tokens = (*tokens, *best.tokens)[: self._longest]
        return tokens


def _overlap(one: NGram, other: NGram) -> bool:
    """Whether one of them is the beginning of the other."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]


class _Store:
    """Buckets of n-grams by key. The one place where anything is evicted."""

    def __init__(self, capacity: int, bucket: int) -> None:
        self._capacity = capacity
        self._bucket = bucket
        self._buckets: OrderedDict[NGram, OrderedDict[NGram, Origin]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def file(self, key: NGram, follow: NGram, origin: Origin) -> None:
        """Make `follow` the newest of its bucket, in the place of its own beginning."""
        bucket = self._buckets.setdefault(key, OrderedDict())
        self._buckets.move_to_end(key)
        before = len(bucket)
        bucket.pop(follow[:-1], None)
        bucket[follow] = origin
        bucket.move_to_end(follow)
        if len(bucket) > self._bucket:
            bucket.popitem(last=False)
        self._size += len(bucket) - before
        while self._size > self._capacity:
            _, oldest = self._buckets.popitem(last=False)
            self._size -= len(oldest)

    def newest(self, key: NGram) -> list[Candidate]:
        """What was filed under a key, newest first."""
        bucket = self._buckets.get(key)
        return [Candidate(*item) for item in reversed(bucket.items())] if bucket else []
