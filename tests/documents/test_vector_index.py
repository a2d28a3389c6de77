"""Vectors in their table, and all of them in memory."""

import numpy as np
import pytest

from app.database import Database
from app.documents import embedding
from app.documents.embedding import VectorIndex
from tests.documents.search.library import add_document, word_vector


def store(database: Database, passages: list[int], texts: list[str], model: str = "words") -> None:
    with database.writing() as connection:
        embedding.put_vectors(connection, model, passages, np.array([word_vector(text) for text in texts]))


TEXTS = ["the cat sleeps", "the car drives", "a cat and a car"]


def nearest(index: VectorIndex, text: str, documents: tuple[int, ...] = (1, 2), limit: int = 3) -> list[int]:
    return [one for one, _ in index.nearest("words", word_vector(text), documents, limit)]


@pytest.fixture
def ids(database: Database) -> list[int]:
    ids = add_document(database, TEXTS)
    store(database, ids, TEXTS)
    return ids


def test_the_nearest_is_first_and_knows_its_cosine(database: Database, ids: list[int]) -> None:
    found = VectorIndex(database).nearest("words", word_vector("the cat sleeps"), [1], 2)
    assert found[0] == (ids[0], pytest.approx(1))
    assert len(found) == 2 and found[1][1] < 1


def test_what_comes_later_is_found(database: Database, ids: list[int]) -> None:
    index = VectorIndex(database)
    assert ids[0] in nearest(index, "cat")
    more = add_document(database, ["feline"])
    store(database, more, ["feline"])
    assert nearest(index, "cat")[0] == more[0]


def test_only_documents_that_are_asked_are_looked_at(database: Database, ids: list[int]) -> None:
    more = add_document(database, ["cat"])
    store(database, more, ["cat"])
    assert nearest(VectorIndex(database), "cat", documents=(1,)) == [ids[0], ids[2], ids[1]]
    assert nearest(VectorIndex(database), "cat", documents=()) == []


def test_vectors_of_removed_passages_leave_the_table_and_soon_the_memory(database: Database) -> None:
    index = VectorIndex(database)
    ids = add_document(database, TEXTS * 4)
    store(database, ids, TEXTS * 4)
    nearest(index, "cat")
    with database.writing() as connection:
        connection.executemany("DELETE FROM passage WHERE id = ?", [(one,) for one in ids[3:]])
    assert set(nearest(index, "cat", limit=99)) == set(ids[:3])


@pytest.mark.usefixtures("ids")
def test_a_passage_that_is_gone_gets_no_vector(database: Database) -> None:
    store(database, [999], ["cat"])
    assert 999 not in nearest(VectorIndex(database), "cat", limit=99)
    assert database.is_healthy() == ""


@pytest.mark.usefixtures("ids")
def test_another_models_vectors_are_not_compared(database: Database) -> None:
    index = VectorIndex(database)
    assert nearest(index, "cat")
    assert index.nearest("other", word_vector("cat"), [1], 3) == []
    assert index.nearest("words", np.ones(7, np.float32), [1], 3) == []


def test_vectors_of_other_models_are_forgotten_bit_by_bit(database: Database, ids: list[int]) -> None:
    with database.writing() as connection:
        assert embedding.forget_other_models(connection, "words", 2) == 0
        assert embedding.forget_other_models(connection, "other", 2) == 2
        assert embedding.without_vectors(connection, 0, 9) == ids[:2]


@pytest.mark.usefixtures("ids")
def test_only_ready_passages_wait_for_a_vector(database: Database) -> None:
    soon = add_document(database, ["cat"], state="indexing")
    more = add_document(database, ["cat", "car"])
    with database.reading() as connection:
        assert embedding.without_vectors(connection, 0, 9) == more
        assert embedding.without_vectors(connection, more[0], 9) == more[1:]
    assert soon[0] not in more


def test_cosines_of_some_passages(database: Database, ids: list[int]) -> None:
    index = VectorIndex(database)
    found = index.cosines("words", word_vector("the cat sleeps"), [ids[0], 999])
    assert found == {ids[0]: pytest.approx(1)}
