"""Passages by the words they share with a question."""

import sqlite3
from collections.abc import Sequence

from app.documents.search.words import question

RANKED = """
    SELECT passage.id, -bm25(passage_words) AS score FROM passage_words
    JOIN passage ON passage.id = passage_words.rowid JOIN document ON document.id = passage.document
    WHERE passage_words MATCH ? AND document.state = 'ready'
        AND document.collection IN (SELECT value FROM json_each(?))
    ORDER BY score DESC, passage.id LIMIT ?
"""


def ranked(
    connection: sqlite3.Connection, collections: Sequence[int], asked: str, limit: int
) -> list[tuple[int, float]]:
    """Ids and scores of passages, best first."""
    words = question(asked)
    if not words:
        return []
    return [tuple(row) for row in connection.execute(RANKED, (words, str(list(collections)), limit))]
