"""Chooses how many threads run a step on a CPU: all, or fewer while other programs keep the cores busy.

Threads wait for each other at every matrix product. While another program uses one of their cores, fewer threads
may be faster. Only a trial shows this, so from time to time a step is run twice, on two numbers of threads.

The text must not depend on the number of threads. So the number is changed only for models that compute each row
independently, and for models in float32 without rounded activations. In float32 it changes only the last digits of
results, as the number of rows does.
"""

from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.engine.attention.backend_choice import Attention
from app.engine.block.block import Block
from app.engine.machine.hardware import is_exact
from app.engine.measuring.same_bits import takes_rows_one_by_one
from app.engine.runner.kv_cache import BlockCache
from app.engine.runner.runner import EagerSteps

SHARE = 0.01
"""The approximate share of decoding time that trials may take."""
MARGIN = 0.9
"""Another number of threads is better if it takes less than this share of the time, twice in a row."""


class ThreadChoice:
    """Chooses a number of threads: `count` is the best known number, and `other` is the number to try next."""

    def __init__(self, most: int) -> None:
        self.count = self._most = most
        self._turn = self._wins = 0
        self._allowance = self._price = 0.0  # seconds

    @property
    def other(self) -> int:
        """The next number to try: all, twice as many, one less and half, in turn."""
        near = {self.count - 1, self.count // 2, min(2 * self.count, self._most), self._most}
        others = sorted(near - {0, self.count}, reverse=True)
        return others[self._turn % len(others)]

    @property
    def is_trial_due(self) -> bool:
        """Whether the allowance is enough for the next trial, or `other` won its first trial and is tried again."""
        return self._wins > 0 or self._allowance >= self._price

    def observe(self, seconds: float) -> None:
        """Add a share of a step's seconds to the allowance for trials."""
        self._allowance += SHARE * seconds

    def compare(self, seconds: float, of_other: float) -> None:
        """Compare a step's seconds on `count` and on `other` threads; after two wins in a row `other` becomes
        `count`."""
        self._allowance, self._price = 0.0, of_other
        if of_other >= MARGIN * seconds:
            self._turn, self._wins = self._turn + 1, 0
            return
        self._wins += 1
        if self._wins == 2:
            self.count, self._turn, self._wins = self.other, 0, 0


class ThreadedSteps(EagerSteps):
    """Runs steps eagerly on the fastest number of threads that was found."""

    def __init__(
        self,
        model: PreTrainedModel,
        attention: Attention,
        choice: ThreadChoice,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        super().__init__(model, attention)
        self._choice, self._clock = choice, clock

    def forward(self, cache: BlockCache, block: Block, batch_invariant: bool = False) -> Tensor:
        """Run a step. In a trial run it twice, which is possible because a step changes nothing until it is
        committed."""
        choice = self._choice
        if not choice.is_trial_due:
            logits, seconds = self._timed(choice.count, cache, block, batch_invariant)
            choice.observe(seconds)
            return logits
        _, of_other = self._timed(choice.other, cache, block, batch_invariant)
        logits, seconds = self._timed(choice.count, cache, block, batch_invariant)
        choice.compare(seconds, of_other)
        return logits

    def _timed(
        self, threads: int, cache: BlockCache, block: Block, batch_invariant: bool
    ) -> tuple[Tensor, float]:
        before = torch.get_num_threads()
        if threads != before:
            torch.set_num_threads(threads)
        try:
            began = self._clock()
            logits = super().forward(cache, block, batch_invariant)
            return logits, self._clock() - began
        finally:
            if threads != before:
                torch.set_num_threads(before)


def steps_on_cpu(model: PreTrainedModel, attention: Attention) -> EagerSteps:
    """Make steps that choose their number of threads, if there are several threads and the text does not depend on
    the number; otherwise make steps that use all threads."""
    most = torch.get_num_threads()
    if most > 1 and (is_exact(model) or takes_rows_one_by_one(model, attention)):
        return ThreadedSteps(model, attention, ThreadChoice(most))
    return EagerSteps(model, attention)
