"""Keeps copies of other conversations' keys and values, because clients and the page use one KV cache in turn.

When the copies exceed a share of the free memory, the least recently used are dropped. All are dropped when memory
runs out, when all text is forgotten, and when the model is unloaded.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import torch
from torch import Tensor

from app.engine.block.block import common_length
from app.engine.machine.process_memory import is_out_of_memory
from app.engine.runner.recurrent_state import StatesByLength
from app.system.machine import ram
from app.values.model import PREFIX_SHARE

log = logging.getLogger(__name__)

WORTH_KEEPING = 32
"""A prefix is kept, or restored, only if that saves reading at least this many tokens."""


@dataclass(frozen=True, slots=True)
class KeptPrefix:
    """A prefix's tokens, every layer's keys and values [1, heads, tokens, size], and the recurrent layers' states
    after some numbers of tokens."""

    tokens: tuple[int, ...]
    states: list[Tensor]
    recurrent: StatesByLength = field(default_factory=dict)

    def shared(self, ids: Sequence[int]) -> int:
        """Return how many of these ids can be restored from this prefix. With recurrent layers the states after
        that many tokens must have been kept."""
        common = common_length(self.tokens, ids)
        return max((at for at in self.recurrent if at <= common), default=0) if self.recurrent else common

    @property
    def size(self) -> int:
        """The size in bytes of all keys, values and states."""
        return _size(self.states, self.recurrent)


class PrefixCache:
    """An LRU cache of prefixes. `limit` returns how many bytes they may take, given how many they take now."""

    def __init__(self, limit: Callable[[int], int] = lambda _taken: 0) -> None:
        self._limit = limit
        self._kept: list[KeptPrefix] = []  # the least recently used first

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """The total size of all kept prefixes in bytes."""
        return sum(one.size for one in self._kept)

    def find(self, ids: Sequence[int]) -> KeptPrefix | None:
        """Return the prefix that restores the most of these ids, and mark it as used. Returns None if it restores
        fewer than WORTH_KEEPING."""
        best = max(self._kept, key=lambda one: one.shared(ids), default=None)
        if best is None or best.shared(ids) < WORTH_KEEPING:
            return None
        self._kept.remove(best)
        self._kept.append(best)
        return best

    def keep(
        self, tokens: Sequence[int], states: Sequence[Tensor], recurrent: StatesByLength | None = None
    ) -> None:
        """Copy a prefix, unless it exceeds the limit or a kept prefix begins with it. Drop kept prefixes with which
        the new one begins, then the least recently used until there is room. If memory runs out, drop all."""
        if any(common_length(one.tokens, tokens) == len(tokens) for one in self._kept):
            return
        self._kept = [one for one in self._kept if common_length(one.tokens, tokens) < len(one.tokens)]
        recurrent = recurrent or {}
        new, taken = _size(states, recurrent), self.size
        limit = self._limit(taken)
        if new > limit:
            return
        while taken + new > limit:
            taken -= self._kept.pop(0).size
        try:
            self._kept.append(KeptPrefix(tuple(tokens), [state.clone() for state in states], recurrent))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            log.info("a prefix was not kept, because memory ran out: %s", error)
            self.clear()

    def clear(self) -> None:
        self._kept = []


def _size(states: Sequence[Tensor], recurrent: StatesByLength) -> int:
    return sum(state.nbytes for state in states) + sum(state.nbytes for state in chain(*recurrent.values()))


def share_of_free(device: torch.device) -> Callable[[int], int]:
    """Make a limit: a share of the memory that the device would have free without kept prefixes."""

    def limit(taken: int) -> int:
        if device.type != "cuda":
            free = ram().free
        else:
            unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
            free = torch.cuda.mem_get_info(device)[0] + unused
        return int(PREFIX_SHARE * (free + taken))

    return limit
