"""How many threads a step on the CPU has: all of torch's, or fewer while other programs keep the cores busy.

Threads wait for each other at every product. Where another program has the core of one of them, that takes as long
as the scheduler's turn. So now and then a step is run twice: with as many threads as so far, and with other ones. A
number that was clearly faster twice in a row is kept. Trials come after 1, 2, 4, ... 16 seconds of steps, and they
take a fiftieth of the time at most.

Both runs must have the same bits. Where they differ the number never changes: the text must not depend on what else
the machine does.
"""

from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention.selector import Attention
from app.engine.block import Block
from app.engine.kv_cache import BlockCache
from app.engine.steps import EagerSteps

FIRST, LONGEST = 1.0, 16.0
"""Seconds of steps before the first trial, and at most between two."""
SHARE = 50
"""Seconds of steps for each second of a trial."""
CLEARLY = 1.25
"""Times are noisy: a number of threads must be faster by so much."""
WINS = 2
"""Trials in a row that another number must win."""


class ThreadCount:
    """The number of threads, decided by trials. `most` is halved down to one."""

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError(f"there must be a thread, got {most}")
        self._counts = [most]
        while self._counts[-1] > 1:
            self._counts.append(self._counts[-1] // 2)
        self._place = 0
        self._other = 1
        self._wins = 0
        self._wait = self._left = FIRST
        self._is_settled = most == 1

    @property
    def count(self) -> int:
        """As many as steps have now."""
        return self._counts[self._place]

    def trial(self) -> int | None:
        """The other number that the next step is to be run with, too; None while no trial is due."""
        return None if self._is_settled or self._left > 0 else self._counts[self._other]

    def observe(self, seconds: float) -> None:
        """A step with the number so far took this long."""
        self._left -= seconds

    def settle(self) -> None:
        """Never change again: the bits differ."""
        self._is_settled = True
        self._place = 0

    def observe_trial(self, seconds: float, other: float) -> None:
        """The same step took so long with the number so far, and with the other one."""
        self._wins = self._wins + 1 if other * CLEARLY < seconds else 0
        if 0 < self._wins < WINS:
            return  # the next step decides
        if self._wins:
            self._place, self._wins, self._wait = self._other, 0, FIRST
        else:
            self._wait = min(2 * self._wait, LONGEST)
        self._left = max(self._wait, SHARE * other)
        self._other = self._next_other()

    def _next_other(self) -> int:
        """The neighbours in turn."""
        near = [place for place in (self._place - 1, self._place + 1) if 0 <= place < len(self._counts)]
        return next((place for place in near if place != self._other), near[0])


def has_several_threads(device: torch.device) -> bool:
    """Whether there is anything to choose from."""
    return device.type == "cpu" and torch.get_num_threads() > 1


class ThreadedSteps(EagerSteps):
    """Steps on the CPU with as many threads as are fastest just now. Other work keeps all of them."""

    def __init__(self, model: PreTrainedModel, attention: Attention, note: str = "") -> None:
        super().__init__(model, attention, note)
        self._most = torch.get_num_threads()
        self.threads = ThreadCount(self._most)

    def forward(self, cache: BlockCache, block: Block, batch_invariant: bool = False) -> Tensor:
        """The block's logits. In half precision bits were compared with all threads: they stay."""
        if batch_invariant:
            return super().forward(cache, block, batch_invariant)

        def run() -> Tensor:
            return super(ThreadedSteps, self).forward(cache, block)

        other = self.threads.trial()
        if other is None:
            logits, seconds = self._timed(self.threads.count, run)
            self.threads.observe(seconds)
            return logits
        tried, other_seconds = self._timed(other, run)
        logits, seconds = self._timed(
            self.threads.count, run
        )  # last, for the cache keeps what this one wrote
        if torch.equal(tried, logits):
            self.threads.observe_trial(seconds, other_seconds)
        else:
            self.threads.settle()
        return logits

    def _timed(self, count: int, run: Callable[[], Tensor]) -> tuple[Tensor, float]:
        torch.set_num_threads(count)
        try:
            began = perf_counter()
            return run(), perf_counter() - began
        finally:
            torch.set_num_threads(self._most)
