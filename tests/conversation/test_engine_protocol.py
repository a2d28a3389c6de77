"""Documents' texts, embedded by the engine."""

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from app.conversation.engine_protocol import EngineEmbedder
from app.documents.embedding import Vectors
from app.errors import ModelNotFound
from app.values.messages import ModelFolder

FOLDER = ModelFolder(Path("here"), name="org/small", revision="abc")


class StandIn:
    """An engine that embeds at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[ModelFolder, list[str]]] = []

    def embed(self, model: ModelFolder, texts: Sequence[str]) -> Future[Vectors]:
        self.asked.append((model, list(texts)))
        answer: Future[Vectors] = Future()
        answer.set_result(np.ones((len(texts), 3), np.float32))
        return answer


def test_texts_go_to_the_model_that_is_here() -> None:
    engine = StandIn()
    embedder = EngineEmbedder(engine, lambda: FOLDER)
    assert embedder.model == "org/small@abc"
    assert embedder.embed(["a", "b"]).result().shape == (2, 3)
    assert engine.asked == [(FOLDER, ["a", "b"])]


def test_without_a_model_embedding_fails_and_gives_no_vectors_of_zero_width() -> None:
    """Such vectors were stored for good when the model's folder vanished between two batches."""
    engine, here = StandIn(), list[ModelFolder]()
    embedder = EngineEmbedder(engine, lambda: here[0] if here else None)
    assert embedder.model == ""
    with pytest.raises(ModelNotFound, match="not on this machine"):
        embedder.embed(["a"]).result()
    assert engine.asked == []
    here.append(FOLDER)
    assert embedder.model == "org/small@abc"
