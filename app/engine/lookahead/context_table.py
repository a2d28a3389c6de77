"""One table of fixed size that keeps for each context its successors, which the model found likeliest to come next,
and its followers, which came next in texts (`ngram_pool.py`).

A context is a sequence of one to four tokens. Each context has a row of 16 integers of 32 bits:

    tag | 8 successors, likeliest first | 7 followers, newest first

A one-token context has the row whose index is the token's id. Longer contexts are hashed to the rows after those
of single tokens; the tag of a row, a part of the hash, identifies its context. On a collision the newer context
replaces the older one, so the table never grows or slows down. Pages that were never touched take no memory.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.engine.block.context_entries import FOLLOWERS, MOST_TOKENS, SUCCESSORS, Packed, count_again

LONGEST = 4
"""Tokens of the longest context."""

_ROW = 1 + SUCCESSORS + FOLLOWERS
_SUCCESSORS, _FOLLOWERS = slice(1, 1 + SUCCESSORS), slice(1 + SUCCESSORS, _ROW)
_MIX, _WORD, _TAG = 0x9E3779B97F4A7C15, 2**64 - 1, 2**31 - 1


class ContextEntries(NamedTuple):
    """Packed successors and followers, each with the length of the context that has them; 0 if none has."""

    successors: list[int]
    successor_length: int
    followers: list[int]
    follower_length: int


class ContextTable:
    """The table's rows [vocabulary + 2 ** bits, 16].

    The 64-bit hash of a longer context, shifted right by `shift`, is its index among the last 2 ** bits rows.
    Tokens must be below `vocabulary`. `anywhere` contains the successors [8] of the empty context."""

    def __init__(self, vocabulary: int, bits: int) -> None:
        if not 0 < vocabulary <= MOST_TOKENS:
            raise ValueError(f"a vocabulary has from 1 to {MOST_TOKENS:,} tokens, not {vocabulary:,}")
        self.vocabulary = vocabulary
        self.shift = 64 - bits
        self.rows = np.zeros((vocabulary + 2**bits, _ROW), dtype=np.int32)
        # The same memory as a flat memoryview: reading a number takes half the time of numpy's indexing.
        self._flat = self.rows.data.cast("B").cast("i")
        self.anywhere: Packed = np.zeros(SUCCESSORS, dtype=np.int32)
        self._anywhere: list[int] = []

    def set_first_successors(self, successors: Packed) -> None:
        """Set the successors [tokens, 8] of one-token contexts that have none yet; zeros mean "not known"."""
        known = self.rows[: len(successors), _SUCCESSORS]
        unknown = known[:, 0] == 0
        known[unknown] = successors[unknown]

    def set_anywhere(self, successors: Packed) -> None:
        """Set the successors [8] of the empty context."""
        self.anywhere[:] = successors
        self._anywhere = successors.tolist()

    def learn_follower(self, context: Sequence[int], entry: int) -> bool:
        """Add a follower to the contexts of the last 1 to 4 tokens; return whether it was new to the longest."""
        is_new = False
        for slot, tag in self._slots(context):
            row = self.rows[slot]
            if row[0] != tag:
                row[:] = 0
                row[0] = tag
            followers_found = row[_FOLLOWERS].tolist()
            is_new = _put_first(followers_found, entry)
            row[_FOLLOWERS] = followers_found
        return is_new

    def learn_successors(self, contexts: NDArray[np.int64], successors: Packed) -> None:
        """Store successors [R, 8] for the last 1 to 4 tokens of each context [R, 4]; -1 fills short contexts."""
        words = contexts.astype(np.uint64)
        mixed = (words[:, -1] + np.uint64(1)) * np.uint64(_MIX)
        each_slot, each_tag = [contexts[:, -1]], [np.zeros(len(contexts), dtype=np.int32)]
        for length in range(2, LONGEST + 1):
            mixed = ((mixed ^ mixed >> np.uint64(29)) + words[:, -length] + np.uint64(1)) * np.uint64(_MIX)
            each_slot.append((mixed >> np.uint64(self.shift)).astype(np.int64) + self.vocabulary)
            each_tag.append(((mixed & np.uint64(_TAG)) | np.uint64(1)).astype(np.int32))
        known = np.cumprod(contexts[:, ::-1] >= 0, axis=1, dtype=np.bool_).T.ravel()
        slots, tags = np.concatenate(each_slot)[known], np.concatenate(each_tag)[known]
        self.rows[slots[self.rows[slots, 0] != tags]] = 0
        self.rows[slots, 0] = tags
        self.rows[slots, _SUCCESSORS] = successors[np.tile(np.arange(len(contexts)), LONGEST)[known]]

    def lookup(self, context: Sequence[int]) -> ContextEntries:
        """Look up the longest known context that has successors (else the empty context), and the longest that has
        followers."""
        successors_found = self._anywhere
        followers_found: list[int] = []
        successor_length = follower_length = 0
        slots, flat = self._slots(context), self._flat
        for length in range(len(slots), 0, -1):
            slot, tag = slots[length - 1]
            row = slot * _ROW
            if flat[row] != tag:
                continue
            first, last = row + _SUCCESSORS.start, row + _SUCCESSORS.stop
            if not successor_length and flat[first]:
                successors_found, successor_length = flat[first:last].tolist(), length
            if not follower_length and flat[last]:
                followers_found, follower_length = flat[last : row + _ROW].tolist(), length
            if successor_length and follower_length:
                break
        filled = _filled(successors_found), _filled(followers_found)
        return ContextEntries(filled[0], successor_length, filled[1], follower_length)

    def _slots(self, context: Sequence[int]) -> list[tuple[int, int]]:
        """Return the row index and tag of the contexts of the last token, the last two, ... up to four."""
        last = context[-1]
        mixed = (last + 1) * _MIX & _WORD
        slots = [(last, 0)]
        for token in context[-2 : -LONGEST - 1 : -1]:
            mixed = ((mixed ^ mixed >> 29) + token + 1) * _MIX & _WORD
            slots.append((self.vocabulary + (mixed >> self.shift), mixed & _TAG | 1))
        return slots


def last_tokens(text: Sequence[int]) -> list[int]:
    """Return the last four tokens of a text; a shorter text is filled up with -1 in front."""
    return [-1] * (LONGEST - len(text)) + list(text[-LONGEST:])


def _put_first(followers_found: list[int], entry: int) -> bool:
    """Make an entry the newest follower. If its token is new, drop the oldest follower and return True."""
    token = entry >> 11
    for index, before in enumerate(followers_found):
        if before >> 11 == token:
            del followers_found[index]
            followers_found.insert(0, count_again(entry, before))
            return False
    followers_found.pop()
    followers_found.insert(0, entry)
    return True


def _filled(entries: list[int]) -> list[int]:
    """Return the entries before the first empty entry."""
    return entries if not entries or entries[-1] else entries[: entries.index(0)]
