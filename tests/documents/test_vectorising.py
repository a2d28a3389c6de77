"""The thread that has passages embedded."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from app.database import Database, database_in
from app.documents import Documents
from app.documents.embedding import NO_EMBEDDER
from app.errors import ModelBroken
from tests.documents.search.library import WordEmbedder

TEXT = "\n\n".join(
    f"Paragraph {number} says something about the number {number}." * 20 for number in range(100)
)


def until(is_so: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


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


def test_without_a_model_nothing_is_embedded() -> None:
    assert NO_EMBEDDER.model == ""
    assert NO_EMBEDDER.embed(["a", "b"]).result().shape == (2, 0)


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
