"""One book, its questions, and the real model: words and meaning together find more than either.

By default only the beginning of the book is indexed, because embedding takes most of the time."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from app.database.database import database_in
from app.documents.documents import Documents
from app.documents.hybrid_search import Searcher
from tests.engine.sentences import real_folder
from tests.support.labelled_questions import BOOKS, QUALITY, read_questions
from tests.support.loaded_embedder import WAYS, LoadedEmbedder
from tests.support.recall import recalls
from tests.tiers import named, some

WHOLE = 10**9
Recalls = dict[tuple[str, str], float]
"""Recall of the first five passages, by way and kind of question."""


@pytest.fixture(scope="module", params=some(named((50_000, WHOLE))))
def recall(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recalls]:
    folder = real_folder()
    if folder is None:
        pytest.skip("all-MiniLM-L6-v2 is not installed")
    place, embedder = tmp_path_factory.mktemp("quality"), LoadedEmbedder(folder)
    with closing(database_in(place)) as database, closing(Documents(database, place, embedder)) as documents:
        collection = documents.create("books")
        text = (QUALITY / "alice.txt").read_text(encoding="utf-8")[: request.param]
        document = documents.paste(collection, text, BOOKS["alice"])
        documents.wait()
        passages = documents.passages(document)
        searcher = Searcher(database, embedder)
        ranks: dict[tuple[str, str], list[int]] = {}
        for one in read_questions():
            answers = {passage.id for passage in passages if one.is_answered_by(passage.title, passage.text)}
            if one.document != "alice" or not answers:
                continue
            found, _ = searcher.candidates([collection], one.question)
            for way, order in WAYS.items():
                places = [at for at, each in enumerate(order(found), start=1) if each.passage in answers]
                ranks.setdefault((way, one.kind), []).append(min(places, default=0))
        yield {key: float(recalls(some).mean()) for key, some in ranks.items()}


def test_words_find_what_uses_the_words_of_the_book(recall: Recalls) -> None:
    assert recall["words (BM25)", "near"] > 0.9
    assert recall["both", "near"] > 0.9


def test_meaning_finds_paraphrases_that_words_do_not(recall: Recalls) -> None:
    assert recall["meaning (vectors)", "paraphrase"] > recall["words (BM25)", "paraphrase"] + 0.1
    assert recall["both", "paraphrase"] > recall["words (BM25)", "paraphrase"] + 0.1
