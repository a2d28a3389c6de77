"""An embedding job. Its texts are embedded in small pieces, so that more urgent jobs can run in between."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from app.errors import AppError
from app.values.messages import ModelFolder

PIECE, LARGEST_PIECE = 4, 20_000
"""Maximum number of texts in a piece, and of characters in several texts. A reply may have to wait for a piece."""

Vectors = NDArray[np.float32]
EmbeddedText = str | tuple[int, ...]
"""A text, or its token ids."""
OnTokens = Callable[[int], None]
"""Called with the number of tokens of each piece, on the worker's thread, after the piece is read."""


def ignore_tokens(_count: int) -> None:
    pass


class EmbeddingJob:
    """Texts to embed and their vectors so far. Other threads may use only `answer`."""

    def __init__(
        self, model: ModelFolder, texts: Sequence[EmbeddedText], on_tokens: OnTokens = ignore_tokens
    ) -> None:
        self.model = model
        self.on_tokens = on_tokens
        self.answer: Future[Vectors] = Future()
        self._texts = tuple(texts)
        self._order = sorted(range(len(texts)), key=lambda one: len(texts[one]))
        self._made: list[Vectors] = []

    @property
    def is_wanted(self) -> bool:
        """Whether the job was not cancelled. After this property was read, the job can no longer be cancelled."""
        return bool(self._made) or self.answer.set_running_or_notify_cancel()

    @property
    def is_done(self) -> bool:
        return self._num_made == len(self._texts)

    def piece(self) -> list[EmbeddedText]:
        """Return the next texts: at most PIECE of them and, if several, at most LARGEST_PIECE characters."""
        found = [self._texts[one] for one in self._order[self._num_made : self._num_made + PIECE]]
        few = sum(size <= LARGEST_PIECE for size in accumulate(map(len, found)))
        return found[: max(1, few)]

    def add(self, vectors: Vectors) -> None:
        """Add the vectors of a piece; the last piece sets the answer."""
        self._made.append(vectors)
        if self.is_done:
            stacked = np.concatenate(self._made)
            whole = np.empty_like(stacked)
            whole[self._order] = stacked
            self.answer.set_result(whole)

    def end(self, error: AppError) -> None:
        """Set an error as the answer, unless the job was cancelled."""
        if self.answer.running() or self.is_wanted:
            self.answer.set_exception(error)

    @property
    def _num_made(self) -> int:
        return sum(map(len, self._made))
