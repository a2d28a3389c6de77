"""What embeds texts: behind a protocol, since documents know no torch."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Embeds(Protocol):
    """A sentence-embedding model, or none."""

    @property
    def model(self) -> str:
        """Which model; "" while there is none."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """float32[len(texts), dims], of length one; waits. Raises AppError."""


class NoEmbedder:
    """No model: passages are found by their words alone."""

    model = ""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Nothing."""
        return np.zeros((len(texts), 0), np.float32)


NO_EMBEDDER = NoEmbedder()
