"""The table of vectors, and an exact search over all vectors of one model in memory.

A question is compared with every vector: 100,000 vectors of 384 numbers take 154 MB and one matrix product of
about 15 ms. A search first reads the rows that are newer than the last one that was read. Vectors of deleted
passages stay in memory until a third of all is stale.
"""

import sqlite3
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.database import Database

Vectors = NDArray[np.float32]
"""[texts, width], or one text's [width]; of length one, so that the product of two is their cosine."""
Ids = NDArray[np.int64]

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
"""Rows that are read while the database is held."""
STALE = 1.5
"""How many times as many vectors as are stored may be in memory."""
VALUE_BYTES = 4


def put(connection: sqlite3.Connection, model: str, passages: Iterable[int], vectors: Vectors) -> None:
    """Stores the vectors of those passages that still exist. Raises ValueError for vectors of width 0."""
    if not vectors.shape[1]:
        raise ValueError("a stored vector must have a width above 0")
    rows = zip(passages, vectors.astype("<f4"), strict=True)
    connection.executemany(PUT, ((model, vector.tobytes(), passage) for passage, vector in rows))


def without(connection: sqlite3.Connection, after: int, most: int) -> list[int]:
    """Returns passages of ready documents, after this one, that have no vector."""
    return [row["id"] for row in connection.execute(WITHOUT, (after, most))]


def forget_others(connection: sqlite3.Connection, model: str, most: int) -> int:
    """Deletes vectors of other models, and empty ones that older versions stored. Returns how many."""
    return connection.execute(FORGET, (model, most)).rowcount


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """Vectors that were read together: row i is the vector of passages[i], which is in documents[i]."""

    passages: Ids
    documents: Ids
    vectors: Vectors

    def kept(self, is_kept: NDArray[np.bool_]) -> "VectorBlock":
        """Returns the rows for which this is true."""
        return VectorBlock(self.passages[is_kept], self.documents[is_kept], self.vectors[is_kept])

    def joined(self, more: "VectorBlock") -> "VectorBlock":
        """Returns these rows and then more."""
        return VectorBlock(
            np.concatenate([self.passages, more.passages]),
            np.concatenate([self.documents, more.documents]),
            np.concatenate([self.vectors, more.vectors]),
        )


class VectorIndex:
    """Every passage's vector of one model at a time. Safe to use from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._model = ""
        self._newest = 0
        self._blocks: list[VectorBlock] = []

    def nearest(
        self, model: str, vector: Vectors, documents: Sequence[int], limit: int
    ) -> list[tuple[int, float]]:
        """Finds passages of these documents, with their cosine to a vector of this model, nearest first."""
        asked = np.asarray(documents, np.int64)
        found = [
            _cosines(block, np.isin(block.documents, asked), vector) for block in self._now(model, vector)
        ]
        passages = np.concatenate([np.zeros(0, np.int64), *(one for one, _ in found)])
        cosines = np.concatenate([np.zeros(0, np.float32), *(one for _, one in found)])
        best = np.argsort(-cosines, kind="stable")[:limit]
        return [(int(passages[one]), float(cosines[one])) for one in best]

    def cosines(self, model: str, vector: Vectors, passages: Iterable[int]) -> dict[int, float]:
        """Returns the cosines of these passages, except those without a vector."""
        asked = np.fromiter(passages, np.int64)
        found = (
            _cosines(block, np.isin(block.passages, asked), vector) for block in self._now(model, vector)
        )
        return {int(one): float(cosine) for pair in found for one, cosine in zip(*pair, strict=True)}

    def _now(self, model: str, vector: Vectors) -> tuple[VectorBlock, ...]:
        """Returns all vectors of this model that are as wide as this one, newly stored ones included."""
        with self._lock:
            if model != self._model:
                self._model, self._newest, self._blocks = model, 0, []
            while self._read_block(len(vector)):
                pass
            self._drop_stale()
            return tuple(block for block in self._blocks if block.vectors.shape[1] == len(vector))

    def _read_block(self, width: int) -> bool:
        """Reads some newer rows. Returns whether there may be more."""
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
        self._add(VectorBlock(passages, documents, vectors))
        return len(rows) == READ_AT_ONCE

    def _add(self, block: VectorBlock) -> None:
        """Adds a block, to the last one if that is small, so that there are never many."""
        last = self._blocks[-1] if self._blocks else None
        if last and len(last.passages) < READ_AT_ONCE and last.vectors.shape[1] == block.vectors.shape[1]:
            self._blocks[-1] = last.joined(block)
        else:
            self._blocks.append(block)

    def _drop_stale(self) -> None:
        here = sum(len(block.passages) for block in self._blocks)
        with self._database.reading() as connection:
            stored = int(connection.execute("SELECT count(*) FROM passage_vector").fetchone()[0])
            if here <= stored * STALE:
                return
            rows = connection.execute("SELECT passage FROM passage_vector").fetchall()
        there = np.array([row["passage"] for row in rows], np.int64)
        kept = [block.kept(np.isin(block.passages, there)) for block in self._blocks]
        self._blocks = [block for block in kept if len(block.passages)]


def _cosines(block: VectorBlock, is_asked: NDArray[np.bool_], vector: Vectors) -> tuple[Ids, Vectors]:
    return block.passages[is_asked], (block.vectors @ vector)[is_asked]
