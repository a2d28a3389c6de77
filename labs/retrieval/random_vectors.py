"""Makes random vectors, so that the search among vectors can be measured without the time of a model."""

from collections.abc import Sequence
from concurrent.futures import Future
from zlib import crc32

import numpy as np

from app.documents.embedding import Vectors

WIDTH = 384
"""The width of all-MiniLM-L6-v2's vectors."""


class RandomEmbedder:
    """Gives each text its own random vector, always the same."""

    model = "random"

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        drawn = [
            np.random.default_rng(crc32(text.encode())).standard_normal(WIDTH, np.float32) for text in texts
        ]
        answer: Future[Vectors] = Future()
        answer.set_result(np.array([one / np.linalg.norm(one) for one in drawn], np.float32))
        return answer
