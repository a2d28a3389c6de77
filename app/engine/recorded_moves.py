"""Moving accepted rows to where they belong, in all layers by one replay.

Told one by one these would be four small kernels for each layer. Which rows move where is read from the device:
sources and targets of as many rows as a draft is ever deep. What is left over moves row 0 to where it is.
"""

from collections.abc import Sequence

import numpy as np
import torch

from app.engine.hardware import upload_into
from app.engine.kv_cache import BlockCache
from app.engine.recording import Recorder

MOVES = 32
"""Rows that are moved at most: trees are at most 24 guesses deep."""


class RecordedMoves:
    """The commits of one cache, as long as its buffers stay."""

    def __init__(self, cache: BlockCache, recorder: Recorder, device: torch.device) -> None:
        numbers = self._numbers = torch.zeros((2, MOVES), dtype=torch.long, device=device)
        self._recording = recorder.record(lambda: cache.move(numbers[0], numbers[1]))

    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Keep these rows, row 0 the first of them, at most MOVES."""
        rest = [0] * (MOVES - len(rows))
        moves = np.array(((*rows, *rest), (*range(len(rows)), *rest)), dtype=np.int64) + cache.length
        upload_into(self._numbers, moves)
        self._recording.replay()
        cache.advance(len(rows))
