"""Ready documents in a database, without the thread that would index them, and vectors by words."""

import zlib
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np

from app.database.database import Database
from app.documents.embedding import Vectors
from app.documents.search.terms import indexed

WIDTH = 256


def add_document(
    database: Database, passages: Sequence[str], collection: int = 1, state: str = "ready", language: str = ""
) -> list[int]:
    """Store a text that is these passages; their ids."""
    with database.writing() as connection:
        connection.execute(
            "INSERT OR IGNORE INTO collection (id, name, created) VALUES (?, 'c', 0)", (collection,)
        )
        document = connection.execute(
            "INSERT INTO document (collection, title, source, state, added, language)"
            " VALUES (?, '', 'pasted', ?, 0, ?)",
            (collection, state, language),
        ).lastrowid
        text, ids = "", []
        for words in passages:
            row = connection.execute(
                "INSERT INTO passage (document, start, end, digest) VALUES (?, ?, ?, x'00')",
                (document, len(text), len(text) + len(words)),
            )
            ids.append(int(row.lastrowid or 0))
            connection.execute(
                "INSERT INTO passage_words (rowid, text) VALUES (?, ?)", (ids[-1], indexed(words, language))
            )
            text += words + "\n"
        connection.execute(
            "INSERT INTO document_text (document, part, text) VALUES (?, 0, ?)", (document, text)
        )
    return ids


def word_vector(text: str) -> Vectors:
    """A vector whose cosine to another says how many words two texts share; synonyms are one word."""
    vector = np.zeros(WIDTH, np.float32)
    for word in indexed(text).split():
        vector[zlib.crc32(SYNONYMS.get(word, word).encode()) % WIDTH] += 1
    return vector / max(1e-6, float(np.linalg.norm(vector)))


SYNONYMS = {"automobile": "car", "feline": "cat"}


class WordEmbedder:
    """Embedder at once, or never, or with an error."""

    def __init__(self, model: str = "words") -> None:
        self.model = model
        self.error: Exception | None = None
        self.is_busy = False
        self.is_gone = False
        self.asked: list[str] = []
        self.answers: list[Future[Vectors]] = []

    def embed(self, texts: Sequence[str]) -> Future[Vectors]:
        """Vectors of these texts."""
        self.asked += texts
        answer: Future[Vectors] = Future()
        self.answers.append(answer)
        if self.error:
            answer.set_exception(self.error)
        elif self.is_gone:
            answer.set_result(np.zeros((len(texts), 0), np.float32))
        elif not self.is_busy:
            answer.set_result(np.array([word_vector(text) for text in texts], np.float32))
        return answer
