"""What documents need of an embedding model, and the thread that has the missing vectors of passages computed.

The model is a protocol, because documents do not import torch. A passage without a row in the table of vectors is
work, so a kill loses nothing. The engine takes a small batch when it generates no reply; meanwhile documents are
found by their words. When another model is chosen, the vectors of the previous one are deleted first.
"""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotReady
from typing import Protocol

import numpy as np

from app.database import Database
from app.documents import passage_table
from app.documents.search import vector_index
from app.documents.search.vector_index import Vectors
from app.errors import AppError
from app.values.document import Passage

BATCH = 32
"""Passages of a batch. Quitting the app loses at most one batch."""
DELETED_AT_ONCE = 2_000
"""Old vectors that are deleted at once."""
RETRY_SECONDS = 30.0
"""Seconds until the next try when there was no model, or it failed."""
POLL_SECONDS = 0.5
"""Seconds between checks of whether the app is closing."""


class Embedder(Protocol):
    """A sentence-embedding model, or none."""

    @property
    def model(self) -> str:
        """The model's name, which changes whenever its vectors do; "" when there is none."""

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        """Computes the vectors of these texts when the engine has time. `result()` raises AppError on failure."""


class NoEmbedder:
    """No model: passages are found by their words alone."""

    model = ""

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        """Returns vectors of width 0."""
        answer: Future[Vectors] = Future()
        answer.set_result(np.zeros((len(texts), 0), np.float32))
        return answer


NO_EMBEDDER = NoEmbedder()
NO_VECTORS: Vectors = np.zeros((0, 0), np.float32)

log = logging.getLogger(__name__)


class EmbeddingWorker:
    """Computes the missing vectors of passages."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self._embedder = embedder
        self._changed = threading.Condition()
        self._is_awake = True
        self._is_idle = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="vectors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Makes the thread look for new passages now."""
        with self._changed:
            self._is_awake, self._is_idle = True, False
            self._changed.notify_all()

    def wait(self) -> None:
        """Returns when every passage has its vector, or there is no model."""
        self.wake()
        with self._changed:
            while not (self._is_idle or self._is_closing):
                self._changed.wait(POLL_SECONDS)

    def close(self) -> None:
        """Stops the work, and ends the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closing:
            with self._changed:
                self._is_awake = False
            try:
                self._embed_all(self._embedder.model)
            except AppError as error:  # documents are found by their words meanwhile
                log.warning("passages were not embedded: %s", error)
            self._sleep()

    def _sleep(self) -> None:
        with self._changed:
            self._is_idle = not self._is_awake
            self._changed.notify_all()
            if not (self._is_awake or self._is_closing):
                self._changed.wait(RETRY_SECONDS)

    def _embed_all(self, model: str) -> None:
        if not model:
            return
        self._forget_others(model)
        newest = 0
        while (batch := self._batch(newest)) and not self._is_closing and self._embedder.model == model:
            # The title and the headings tell what a passage is about.
            texts = ["\n".join(filter(None, (one.title, one.heading, one.text))) for one in batch]
            made = self._result(self._embedder.embed(texts))
            if not made.size:  # the app is closing, or the model's folder has vanished
                return
            with self._database.writing() as connection:
                vector_index.put(connection, model, [one.id for one in batch], made)
            newest = batch[-1].id

    def _batch(self, after: int) -> tuple[Passage, ...]:
        with self._database.reading() as connection:
            return passage_table.passages_of(connection, vector_index.without(connection, after, BATCH))

    def _forget_others(self, model: str) -> None:
        gone = DELETED_AT_ONCE
        while gone == DELETED_AT_ONCE and not self._is_closing:
            with self._database.writing() as connection:
                gone = vector_index.forget_others(connection, model, DELETED_AT_ONCE)

    def _result(self, answer: Future[Vectors]) -> Vectors:
        """Waits for the result; returns no vectors when the app is closing."""
        while not self._is_closing:
            try:
                return answer.result(POLL_SECONDS)
            except NotReady:
                continue
        answer.cancel()
        return NO_VECTORS
