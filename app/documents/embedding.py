"""What embeds texts: behind a protocol, since documents know no torch."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""[texts, width], or one text's [width]; of length one, so that the product of two is their cosine."""


class Embeds(Protocol):
    """A sentence-embedding model, or none."""

    @property
    def model(self) -> str:
        """Which model, by a name that changes with its vectors; "" while there is none."""

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        """Vectors of these texts, once there is time; `result()` raises AppError where there are none."""


class NoEmbedder:
    """No model: passages are found by their words alone."""

    model = ""

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        """Vectors without any numbers."""
        answer: Future[Vectors] = Future()
        answer.set_result(np.zeros((len(texts), 0), np.float32))
        return answer


NO_EMBEDDER = NoEmbedder()
