"""Asks the loaded model for the first successors that its load had no time for, while nobody waits for it.

A vocabulary of 49,152 tokens takes SmolLM2 from one to four minutes on a CPU; a load has 1.5 seconds. The
rest is asked block by block, for at most a minute after each load, and kept on disk, until every token was asked. A
request that comes in waits for one block at most.
"""

import logging
from collections.abc import Callable
from time import perf_counter

from app.engine.loading.loading import LoadedModel
from app.engine.loading.measuring import first_token_of_texts, keep_first
from app.engine.lookahead.model_statistics import ROWS, ask_first_successors, num_asked
from app.engine.measuring.measurement_cache import MeasurementCache
from app.engine.runner.runner import BlockRunner

log = logging.getLogger(__name__)

SECONDS = 60.0
"""Of asking after each load."""
BLOCK_SECONDS = 0.1
"""The longest that a block may take. Models whose step of one row takes longer are not asked."""
SECONDS_UNSAVED = 10.0
"""Of asking that is lost if the app ends now."""


class IdleAsking:
    """Belongs to one loaded model."""

    def __init__(
        self, loaded: LoadedModel, cache: MeasurementCache, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._loaded, self._cache, self._clock = loaded, cache, clock
        self._rows = _rows_of_a_block(loaded)
        self._left = SECONDS if self._rows else 0.0
        self._unsaved = 0.0

    @property
    def is_done(self) -> bool:
        """Whether every token was asked, or time is up."""
        first = self._loaded.statistics.first
        return self._left <= 0 or num_asked(first) == len(first)

    def ask(self) -> float:
        """Ask for one block of tokens; returns the seconds that it took, 0 where there is nothing to ask."""
        if self.is_done:
            return 0.0
        began = self._clock()
        try:
            self._ask()
        except Exception:
            log.warning("the model is asked for no more first successors", exc_info=True)
            self._left = 0.0
            return 0.0
        took = self._clock() - began
        self._left -= took
        self._unsaved += took
        if self.is_done or self._unsaved > SECONDS_UNSAVED:
            keep_first(self._loaded.statistics.first, self._cache, self._loaded.cache_key)
            self._unsaved = 0.0
        return took

    def _ask(self) -> None:
        loaded = self._loaded
        assert isinstance(loaded.runner, BlockRunner)
        runner, known = loaded.runner.with_small_cache(), loaded.statistics.first
        start = first_token_of_texts(loaded.tokenizer, len(known))
        more = ask_first_successors(runner, known, start, lambda _done, _total: None, self._rows, seconds=0)
        loaded.statistics.learn_first(more)


def _rows_of_a_block(loaded: LoadedModel) -> int:
    """As many as a block has time for; 0 where a model cannot be asked, or shares its layers with other devices."""
    if not isinstance(loaded.runner, BlockRunner) or loaded.info.devices:
        return 0
    times = loaded.profile.free
    pairs = zip(times.buckets, times.seconds, strict=True)
    return max((rows for rows, seconds in pairs if rows <= ROWS and seconds < BLOCK_SECONDS), default=0)
