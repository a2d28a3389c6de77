"""The commit of accepted rows that are not in place yet, as one CUDA graph: it moves them in every layer."""

from collections.abc import Sequence

import numpy as np
import torch

from app.engine.block.block import MAX_DEPTH
from app.engine.graphs.graph_capture import GraphCapturer
from app.engine.machine.hardware import upload_into
from app.engine.runner.kv_cache import BlockCache

MOVES = MAX_DEPTH + 1
"""Rows that are moved at most: row 0 and one for each guess in a line."""


class CapturedMoves:
    """The commits of one cache, as long as its buffers stay."""

    def __init__(self, cache: BlockCache, capturer: GraphCapturer, device: torch.device) -> None:
        numbers = self._numbers = torch.zeros((2, MOVES), dtype=torch.long, device=device)
        self._graph = capturer.capture(lambda: cache.move(numbers[0], numbers[1]))

    def commit(self, cache: BlockCache, rows: Sequence[int]) -> None:
        """Keep these rows, row 0 the first of them, at most MOVES."""
        rest = [0] * (MOVES - len(rows))
        moves = np.array(((*rows, *rest), (*range(len(rows)), *rest)), dtype=np.int64) + cache.length
        upload_into(self._numbers, moves)
        self._graph.replay()
        cache.advance(len(rows))
