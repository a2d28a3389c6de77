"""The vectors of passages: the protocol of an embedding model, the table of vectors, the search among them, and the
thread that computes them.

Passages without a row in the table are the work to do, so at most a batch is lost if the app is killed. A search is
exact: 100,000 vectors of 384 dimensions take 154 MB in memory, and matrix products of about 15 ms."""

import logging
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotReady
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.database.database import Database
from app.documents import passage_table
from app.errors import AppError
from app.values.document import Passage

Vectors = NDArray[np.float32]
"""Vectors [texts, width], or one vector [width]. They have length one, so that the product of two is their
cosine."""
Ids = NDArray[np.int64]

BATCH = 32
"""Passages of a batch. Quitting the app loses the work on at most one batch."""
DELETED_AT_ONCE = 2_000
"""Maximum number of vectors of other models that are deleted in one transaction."""
RETRY_SECONDS = 30.0
"""Seconds until the thread checks for work again, if nothing wakes it."""
POLL_SECONDS = 0.5
"""Seconds between checks of whether the app is closing."""
NEWER = (
    "SELECT id, passage, document, vector FROM passage_vector WHERE id > ? AND model = ? ORDER BY id LIMIT ?"
)
PUT = """
    INSERT OR REPLACE INTO passage_vector (passage, document, model, vector)
    SELECT id, document, ?, ? FROM passage WHERE id = ?
"""
WITHOUT = """
    SELECT passage.id FROM passage JOIN document ON document.id = passage.document
    WHERE passage.id > ? AND document.state = 'ready' AND NOT EXISTS
    (SELECT 1 FROM passage_vector AS known WHERE known.passage = passage.id)
    ORDER BY passage.id LIMIT ?
"""
FORGET = """
    DELETE FROM passage_vector WHERE id IN
    (SELECT id FROM passage_vector WHERE model <> ? OR length(vector) = 0 LIMIT ?)
"""
READ_AT_ONCE = 2_000
"""Maximum number of rows that are read in one transaction."""
STALE = 1.5
"""Largest ratio of vectors in memory to stored vectors; above it, all are read again."""
VALUE_BYTES = 4

log = logging.getLogger(__name__)


class Embedder(Protocol):
    """A sentence-embedding model, which may be missing."""

    @property
    def model(self) -> str:
        """The model's name, which changes whenever its vectors do; "" if the model is missing."""

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        """Computes the vectors of these texts when the engine has time. `result()` raises AppError on failure."""


class NoEmbedder:
    """Represents a missing model, with which passages are found only by their words."""

    model = ""

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        """Returns vectors of width 0, with which no passage is found by meaning."""
        answer: Future[Vectors] = Future()
        answer.set_result(np.zeros((len(texts), 0), np.float32))
        return answer


NO_EMBEDDER = NoEmbedder()
NO_VECTORS: Vectors = np.zeros((0, 0), np.float32)


def put_vectors(
    connection: sqlite3.Connection, model: str, passages: Iterable[int], vectors: Vectors
) -> None:
    """Stores the vectors of passages, except of passages that no longer exist. Raises ValueError for width 0."""
    if not vectors.shape[1]:
        raise ValueError("a stored vector must have a width above 0")
    rows = zip(passages, vectors.astype("<f4"), strict=True)
    connection.executemany(PUT, ((model, vector.tobytes(), passage) for passage, vector in rows))


def without_vectors(connection: sqlite3.Connection, after: int, most: int) -> list[int]:
    """Returns at most `most` ids above `after` of passages without a vector in ready documents."""
    return [row["id"] for row in connection.execute(WITHOUT, (after, most))]


def forget_other_models(connection: sqlite3.Connection, model: str, most: int) -> int:
    """Deletes at most `most` vectors that are empty or of other models. Returns the number of deleted vectors."""
    return connection.execute(FORGET, (model, most)).rowcount


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """Vectors in memory: row i is the vector of passages[i], which is in documents[i]."""

    passages: Ids
    documents: Ids
    vectors: Vectors

    def joined(self, more: "VectorBlock") -> "VectorBlock":
        return VectorBlock(
            np.concatenate([self.passages, more.passages]),
            np.concatenate([self.documents, more.documents]),
            np.concatenate([self.vectors, more.vectors]),
        )


@dataclass(frozen=True, slots=True)
class Cosines:
    """The cosines of a question with the vectors of some documents: their number, mean and standard deviation.

    `nearest` are the passages with the greatest cosines, best first. `known` has the cosines of these passages, and
    of the passages that were asked for and have a vector."""

    number: int
    mean: float
    deviation: float
    nearest: Sequence[int]
    known: Mapping[int, float]

    def standard_score(self, passage: int) -> float:
        """Returns by how many standard deviations a passage's cosine exceeds the mean; 0 without a vector."""
        return (self.known.get(passage, self.mean) - self.mean) / self.deviation if self.deviation else 0.0


class VectorIndex:
    """All stored vectors of one model at a time, in memory. Safe to use from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._model = ""
        self._newest = 0
        self._blocks: list[VectorBlock] = []

    def nearest(
        self, model: str, vector: Vectors, documents: Sequence[int], limit: int, others: Iterable[int] = ()
    ) -> Cosines | None:
        """Compares a vector of this model with the passages of these documents, and finds the `limit` nearest and
        the cosines of `others`. Returns None if no passage has a vector."""
        wanted = np.asarray(documents, np.int64)
        blocks = self._now(model, vector)
        places = [np.isin(block.documents, wanted) for block in blocks]
        found = [
            (block.passages[at], (block.vectors @ vector)[at])
            for block, at in zip(blocks, places, strict=True)
        ]
        passages = np.concatenate([np.zeros(0, np.int64), *(one for one, _ in found)])
        cosines = np.concatenate([np.zeros(0, np.float32), *(one for _, one in found)])
        if not len(cosines):
            return None
        best = np.argpartition(-cosines, min(limit, len(cosines)) - 1)[:limit]
        best = best[np.lexsort((best, -cosines[best]))]
        nearest = passages[best].tolist()
        known = np.isin(passages, [*nearest, *others])
        pairs = zip(passages[known].tolist(), cosines[known].tolist(), strict=True)
        return Cosines(len(cosines), float(cosines.mean()), float(cosines.std()), nearest, dict(pairs))

    def spread(self, model: str, vectors: Vectors) -> tuple[Vectors, Vectors]:
        """Returns the mean and the standard deviation of each vector's cosines with all passages; 0 without any."""
        products = [block.vectors @ vectors.T for block in self._now(model, vectors[0])]
        cosines = np.concatenate(products or [np.zeros((1, len(vectors)), np.float32)])
        return cosines.mean(0)[:, None], cosines.std(0)[:, None]

    def _now(self, model: str, vector: Vectors) -> tuple[VectorBlock, ...]:
        """Reads newly stored vectors, and returns all vectors of this model that are as wide as `vector`."""
        with self._lock:
            if model != self._model or self._has_stale():
                self._model, self._newest, self._blocks = model, 0, []
            while self._read_block(len(vector)):
                pass
            return tuple(block for block in self._blocks if block.vectors.shape[1] == len(vector))

    def _read_block(self, width: int) -> bool:
        """Reads at most READ_AT_ONCE newer rows. Returns whether there may be more.

        The rows are joined to the last block if that is small, so that few blocks are small."""
        with self._database.reading() as connection:
            rows = connection.execute(NEWER, (self._newest, self._model, READ_AT_ONCE)).fetchall()
        if not rows:
            return False
        self._newest = int(rows[-1]["id"])
        fitting = [row for row in rows if len(row["vector"]) == width * VALUE_BYTES]
        vectors = np.frombuffer(b"".join(row["vector"] for row in fitting), "<f4").reshape(-1, width)
        passages, documents = (
            np.array([row[column] for row in fitting], np.int64) for column in ("passage", "document")
        )
        block = VectorBlock(passages, documents, vectors)
        last = self._blocks[-1] if self._blocks else None
        if last and len(last.passages) < READ_AT_ONCE and last.vectors.shape[1] == block.vectors.shape[1]:
            self._blocks[-1] = last.joined(block)
        else:
            self._blocks.append(block)
        return len(rows) == READ_AT_ONCE

    def _has_stale(self) -> bool:
        loaded = sum(len(block.passages) for block in self._blocks)
        with self._database.reading() as connection:
            stored = int(connection.execute("SELECT count(*) FROM passage_vector").fetchone()[0])
        return loaded > stored * STALE


class EmbeddingWorker:
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
        with self._changed:
            self._is_awake, self._is_idle = True, False
            self._changed.notify_all()

    def wait(self) -> None:
        """Waits until every passage has its vector, the model is missing or fails, or the worker is closed."""
        self.wake()
        with self._changed:
            while not (self._is_idle or self._is_closing):
                self._changed.wait(POLL_SECONDS)

    def close(self) -> None:
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
            except AppError as error:  # until the next try documents are found by their words
                log.warning("passages were not embedded: %s", error)
            with self._changed:
                self._is_idle = not self._is_awake
                self._changed.notify_all()
                if not (self._is_awake or self._is_closing):
                    self._changed.wait(RETRY_SECONDS)

    def _embed_all(self, model: str) -> None:
        if not model:
            return
        newest, deleted = 0, DELETED_AT_ONCE
        while deleted == DELETED_AT_ONCE and not self._is_closing:
            with self._database.writing() as connection:
                deleted = forget_other_models(connection, model, DELETED_AT_ONCE)
        while (batch := self._batch(newest)) and not self._is_closing and self._embedder.model == model:
            # The title and the headings name the topic of a passage.
            texts = ["\n".join(filter(None, (one.title, one.heading, one.text))) for one in batch]
            made = self._result(self._embedder.embed(texts))
            if not made.size:  # the app is closing, or the model's folder has vanished
                return
            with self._database.writing() as connection:
                put_vectors(connection, model, [one.id for one in batch], made)
            newest = batch[-1].id

    def _batch(self, after: int) -> tuple[Passage, ...]:
        with self._database.reading() as connection:
            return passage_table.passages_of(connection, without_vectors(connection, after, BATCH))

    def _result(self, answer: Future[Vectors]) -> Vectors:
        """Waits for the result; returns no vectors when the app is closing."""
        while not self._is_closing:
            try:
                return answer.result(POLL_SECONDS)
            except NotReady:
                continue
        answer.cancel()
        return NO_VECTORS
