"""Vectors of passages: the search in memory, and the thread that has missing ones computed."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from app.database.database import Database, database_in
from app.documents import embedding
from app.documents.documents import Documents
from app.documents.embedding import VectorIndex
from app.errors import ModelBroken
from tests.documents.search.library import WordEmbedder, add_document, word_vector
from tests.support.waiting import until

TEXT = "\n\n".join(
    f"Paragraph {number} says something about the number {number}." * 20 for number in range(100)
)


def embedded(documents: Documents, collection: int) -> tuple[int, int]:
    (one,) = documents.documents(collection)
    return one.embedded, one.passages


def test_every_passage_gets_a_vector_of_what_it_says_and_where(database: Database, tmp_path: Path) -> None:
    embedder = WordEmbedder()
    with closing(Documents(database, tmp_path, embedder)) as documents:
        collection = documents.create("Notes")
        documents.paste(collection, TEXT, "Numbers")
        documents.wait()
        made, passages = embedded(documents, collection)
    assert made == passages > 32
    assert all(text.startswith("Numbers\n") for text in embedder.asked)


def test_what_a_quit_left_is_done_at_the_next_start(tmp_path: Path) -> None:
    with closing(database_in(tmp_path)) as database, closing(Documents(database, tmp_path)) as documents:
        collection = documents.create("Notes")
        documents.paste(collection, TEXT, "Numbers")
        documents.wait()
        assert embedded(documents, collection)[0] == 0
    with (
        closing(database_in(tmp_path)) as database,
        closing(Documents(database, tmp_path, WordEmbedder())) as documents,
    ):
        documents.wait()
        made, passages = embedded(documents, collection)
        assert made == passages


def test_another_model_embeds_all_anew(database: Database, tmp_path: Path) -> None:
    for model in ("one", "other"):
        embedder = WordEmbedder(model)
        with closing(Documents(database, tmp_path, embedder)) as documents:
            collection = (documents.collections() or [None])[0]
            number = collection.id if collection else documents.create("Notes")
            documents.paste(number, TEXT, "Numbers")
            documents.wait()
            made, passages = embedded(documents, number)
        assert made == passages == len(embedder.asked)
    with database.reading() as connection:
        models = connection.execute("SELECT DISTINCT model FROM passage_vector").fetchall()
    assert [row["model"] for row in models] == ["other"]


def test_closing_does_not_wait_for_a_busy_engine_and_takes_its_texts_back(
    database: Database, tmp_path: Path
) -> None:
    embedder = WordEmbedder()
    embedder.is_busy = True
    with closing(Documents(database, tmp_path, embedder)) as documents:
        documents.paste(documents.create("Notes"), TEXT, "Numbers")
        until(lambda: bool(embedder.answers))
    assert embedder.answers[0].cancelled()


def test_a_model_that_fails_leaves_the_words(database: Database, tmp_path: Path) -> None:
    embedder = WordEmbedder()
    embedder.error = ModelBroken("The embedding model is broken: choose another one.")
    with closing(Documents(database, tmp_path, embedder)) as documents:
        collection = documents.create("Notes")
        documents.paste(collection, "The lease ends in May.", "Lease")
        documents.wait()
        assert embedded(documents, collection) == (0, 1)
        assert len(documents.search([collection], "When does the lease end?")) == 1


def test_a_model_whose_folder_vanishes_stores_no_empty_vectors(database: Database, tmp_path: Path) -> None:
    embedder = WordEmbedder()
    embedder.is_gone = True
    with closing(Documents(database, tmp_path, embedder)) as documents:
        collection = documents.create("Notes")
        documents.paste(collection, TEXT, "Numbers")
        documents.wait()
        assert embedded(documents, collection)[0] == 0
        embedder.is_gone = False
        documents.wait()
        made, passages = embedded(documents, collection)
        assert made == passages


def test_empty_vectors_of_an_older_version_are_embedded_anew(database: Database, tmp_path: Path) -> None:
    with closing(Documents(database, tmp_path, WordEmbedder())) as documents:
        collection = documents.create("Notes")
        documents.paste(collection, TEXT, "Numbers")
        documents.wait()
    with database.writing() as connection:
        connection.execute("UPDATE passage_vector SET vector = x''")
    with closing(Documents(database, tmp_path, WordEmbedder())) as documents:
        documents.wait()
        made, passages = embedded(documents, collection)
        with database.reading() as connection:
            empty = connection.execute("SELECT count(*) FROM passage_vector WHERE length(vector) = 0")
            assert empty.fetchone()[0] == 0
        assert made == passages


def store(database: Database, passages: list[int], texts: list[str], model: str = "words") -> None:
    with database.writing() as connection:
        embedding.put_vectors(connection, model, passages, np.array([word_vector(text) for text in texts]))


TEXTS = ["the cat sleeps", "the car drives", "a cat and a car"]


def nearest(index: VectorIndex, text: str, documents: tuple[int, ...] = (1, 2), limit: int = 3) -> list[int]:
    found = index.nearest("words", word_vector(text), documents, limit)
    return list(found.nearest) if found else []


@pytest.fixture
def ids(database: Database) -> list[int]:
    ids = add_document(database, TEXTS)
    store(database, ids, TEXTS)
    return ids


def test_the_nearest_is_first_and_knows_its_cosine(database: Database, ids: list[int]) -> None:
    found = VectorIndex(database).nearest("words", word_vector("the cat sleeps"), [1], 2, others=ids)
    assert found and found.nearest[0] == ids[0] and len(found.nearest) == 2 and found.number == 3
    assert found.known[ids[0]] == pytest.approx(1) and found.known[found.nearest[1]] < 1
    assert set(found.known) == set(ids)
    cosines = list(found.known.values())
    assert (found.mean, found.deviation) == (pytest.approx(np.mean(cosines)), pytest.approx(np.std(cosines)))


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
    assert database.damage() == ""


@pytest.mark.usefixtures("ids")
def test_another_models_vectors_are_not_compared(database: Database) -> None:
    index = VectorIndex(database)
    assert nearest(index, "cat")
    assert index.nearest("other", word_vector("cat"), [1], 3) is None
    assert index.nearest("words", np.ones(7, np.float32), [1], 3) is None


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
