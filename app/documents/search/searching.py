"""A question to the passages that answer it: by words at once, and by meaning where there is a model for it."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaiting

import numpy as np

from app.database import Database
from app.document_messages import Passage, PassageHit
from app.documents import passage_rows
from app.documents.embedding import Embeds, Vectors
from app.documents.search.bm25 import ranked
from app.documents.search.merging import Candidate, merged, near_enough, with_similarity
from app.documents.search.repeats import without_repeats
from app.documents.search.vectors import VectorIndex
from app.errors import AppError

CANDIDATES = 50
"""Passages that each way of searching may bring."""
PATIENCE = 2.0
"""Seconds to wait for the question's vector: a long reply may be before it, and words find much by themselves."""
SPARE = 3
"""So many times what is asked for is looked at, since repeats are left out."""
READY = """
    SELECT id FROM document WHERE state = 'ready' AND collection IN (SELECT value FROM json_each(?))
"""
NO_VECTOR: Vectors = np.zeros(0, np.float32)


class Searcher:
    """Finds passages. Safe to use from any thread."""

    def __init__(self, database: Database, embedder: Embeds, patience: float = PATIENCE) -> None:
        self._database = database
        self._embedder = embedder
        self._patience = patience
        self._index = VectorIndex(database)

    def search(self, collections: Sequence[int], question: str, limit: int) -> tuple[PassageHit, ...]:
        """The passages of these collections that are nearest to a question; () when none is near enough."""
        candidates = near_enough(*self.candidates(collections, question))[: limit * SPARE]
        return tuple(without_repeats(self._found(candidates))[:limit])

    def candidates(self, collections: Sequence[int], question: str) -> tuple[list[Candidate], bool]:
        """All that words and meaning bring, best first, near enough or not; and whether meaning was asked."""
        model = self._embedder.model
        answer = self._embedder.embed([question])  # the engine begins while words are looked up
        asked = json.dumps(list(collections))
        with self._database.reading() as connection:
            by_words = ranked(connection, collections, question, CANDIDATES)
            documents = [row["id"] for row in connection.execute(READY, (asked,))]
        vector = _in_time(answer, self._patience)
        if not len(vector):
            return merged(by_words, []), False
        by_meaning = self._index.nearest(model, vector, documents, CANDIDATES)
        known = self._index.cosines(model, vector, (one.passage for one in by_words))
        return with_similarity(merged(by_words, by_meaning), known), True

    def _found(self, candidates: Sequence[Candidate]) -> list[PassageHit]:
        by_id = {one.passage: one for one in candidates}
        with self._database.reading() as connection:
            passages = passage_rows.passages_of(connection, list(by_id))
        return [_as_found(passage, by_id[passage.id]) for passage in passages]


def _in_time(answer: Future[Vectors], patience: float) -> Vectors:
    """A question's vector, or none: words find much by themselves."""
    try:
        vector: Vectors = answer.result(patience)[0]
    except (AppError, StillWaiting):
        answer.cancel()
        return NO_VECTOR
    return vector


def _as_found(passage: Passage, one: Candidate) -> PassageHit:
    return PassageHit(
        passage, one.worth, one.bm25, one.bm25_rank, one.similarity, one.similarity_rank, one.share
    )
