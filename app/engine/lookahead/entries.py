"""The two kinds of knowledge about a context, each packed into one number of 31 bits. 0 is nothing.

    successor    token + 1 (20 bits) | gap class (4)                       what the model held likely there
    follower     token + 1 (20 bits) | source (3) | seen (3) | reply (5)   what came next there in a text

The gap class of the likeliest token is its lead over the second (8 to 15), of the others how far they are behind
(0 to 7), in logits: how sure the model was says more about a guess than its rank.
"""

import numpy as np
from numpy.typing import NDArray

from app.messages import Origin

SUCCESSORS, FOLLOWERS = 8, 7
"""How many of each a context keeps."""

Packed = NDArray[np.int32]
"""Successors [R, 8], best first."""

SOURCES: tuple[Origin, ...] = ("window", "prompt", "output", "document", "history")
"""Where followers come from, by number."""
_HISTORY = SOURCES.index("history")
_DOCUMENT = SOURCES.index("document")

GAPS = np.array([0.25, 0.75, 1.5, 2.5, 4.0, 6.0, 9.0], dtype=np.float32)
"""Borders between the classes of distance."""
LEADS = len(GAPS) + 1
"""The classes from this one on are leads of the likeliest token."""

MOST_TOKENS = 2**20 - 1
"""The largest vocabulary; the largest known one has 262,144 tokens."""
_SEEN, _ONCE = 7 << 5, 1 << 5
NUM_REPLIES = 32
"""After so many replies their count begins anew. Only the label "history" depends on it."""


def pack_successors(ids: NDArray[np.int64], logits: NDArray[np.float32]) -> Packed:
    """The likeliest tokens of each row and their logits [R, K], best first -> [R, 8]."""
    gaps = np.searchsorted(GAPS, logits[:, :1] - logits, side="right")
    gaps[:, 0] = LEADS + (gaps[:, 1] if gaps.shape[1] > 1 else LEADS - 1)
    packed = np.zeros((len(ids), SUCCESSORS), dtype=np.int32)
    packed[:, : ids.shape[1]] = (ids + 1) << 4 | gaps
    return packed


def unpack_successor(packed: int) -> tuple[int, int]:
    """(token, gap class)"""
    return (packed >> 4) - 1, packed & 15


def pack_follower(token: int, origin: Origin, reply: int) -> int:
    """A follower that was seen once."""
    return (token + 1) << 11 | SOURCES.index(origin) << 8 | _ONCE | reply % NUM_REPLIES


def unpack_follower(packed: int, reply: int) -> tuple[int, int, bool]:
    """(token, number of its source as seen from this reply, whether it was seen only once).

    What was prompt or output of an earlier reply is history by now; a document stays one."""
    source = packed >> 8 & 7
    if packed & 31 != reply % NUM_REPLIES and source != _DOCUMENT:
        source = _HISTORY
    return (packed >> 11) - 1, source, packed & _SEEN == _ONCE


def seen_again(packed: int, before: int) -> int:
    """A follower, counting how often it was seen before."""
    return packed & ~_SEEN | min((before & _SEEN) + _ONCE, _SEEN)
