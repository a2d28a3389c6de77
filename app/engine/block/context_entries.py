"""Packs the successors and followers of a context, each into an int32. 0 is an empty entry.

    successor    token + 1 (20 bits) | gap (10)                            a likely next token, by its logit
    follower     token + 1 (20 bits) | source (3) | seen (3) | reply (5)   a token that came next in some text

The gap of the likeliest token is its lead over the second token; the gap of any other token is its distance from
the likeliest, in 1/32 logit. Gap classes are coarser: 0 to 7 for distances, 8 to 15 for leads.
"""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from app.values.messages import Origin

SUCCESSORS, FOLLOWERS = 8, 7
"""Maximum number of successors and of followers that are stored for a context."""

Packed = NDArray[np.int32]
"""Packed successors [R, 8], best first."""

SOURCES: tuple[Origin, ...] = ("window", "prompt", "output", "document", "history", "prediction")
"""The origins of followers; a packed source is an index of this tuple."""
_HISTORY = SOURCES.index("history")
_GIVEN = (SOURCES.index("document"), SOURCES.index("prediction"))

SUCCESSORS_LAYOUT = f"{SUCCESSORS} of 20 and 10 bits, behind a line break where texts have no BOS"
"""Names the format of packed successors; stored successors with another format name cannot be used."""

GAPS = (0.25, 0.75, 1.5, 2.5, 4.0, 6.0, 9.0)
"""Borders between the gap classes of distances, and between those of leads, in logits."""
GAP_STEP, MOST_GAP = 1 / 32, 2**10 - 1
"""The unit of packed gaps, in logits, and the largest packed gap, in units."""
LEADS = len(GAPS) + 1
"""The first of the gap classes for leads of the likeliest token; smaller gap classes are for distances."""

MOST_TOKENS = 2**20 - 1
"""Maximum size of a vocabulary; the largest known vocabulary has 262,144 tokens."""
SEEN_BITS, SEEN_ONCE = 7 << 5, 1 << 5
NUM_REPLIES = 32
"""The number of replies after which reply numbers start again at 0. Only the label "history" depends on them."""


def pack_successors(ids: NDArray[np.int64], logits: NDArray[np.float32]) -> Packed:
    """Pack the likeliest tokens of each row and their logits [R, K], best first -> [R, 8]."""
    gaps = np.minimum((logits[:, :1] - logits) / GAP_STEP, MOST_GAP).astype(np.int32)
    gaps[:, 0] = gaps[:, 1] if gaps.shape[1] > 1 else MOST_GAP
    packed = np.zeros((len(ids), SUCCESSORS), dtype=np.int32)
    packed[:, : ids.shape[1]] = (ids + 1) << 10 | gaps
    return packed


def unpack_successor(packed: int) -> tuple[int, int]:
    """Return (token, gap in steps of 1/32 logit)."""
    return (packed >> 10) - 1, packed & MOST_GAP


def gap_class(gap: float) -> int:
    """Return the gap class, 0 to 7, of a distance in logits."""
    return bisect_right(GAPS, gap)


def pack_follower(token: int, origin: Origin, reply: int) -> int:
    """Pack a follower that was seen once."""
    return (token + 1) << 11 | SOURCES.index(origin) << 8 | SEEN_ONCE | reply % NUM_REPLIES


def unpack_follower(packed: int, reply: int) -> tuple[int, int, bool]:
    """Return (token, index of its source in SOURCES, whether the follower was seen only once).

    Followers from other replies than `reply` count as history, except those from documents and predictions."""
    source = packed >> 8 & 7
    if packed & 31 != reply % NUM_REPLIES and source not in _GIVEN:
        source = _HISTORY
    return (packed >> 11) - 1, source, packed & SEEN_BITS == SEEN_ONCE


def count_again(packed: int, before: int) -> int:
    """Return the new entry `packed` with one more than the count in the old entry `before`, at most 7."""
    return packed & ~SEEN_BITS | min((before & SEEN_BITS) + SEEN_ONCE, SEEN_BITS)
