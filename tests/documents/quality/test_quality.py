"""One book, its questions, and the real model: words and meaning together find more than either."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from app.database import database_in
from app.documents import Documents
from app.documents.search.searcher import Searcher
from tests.engine.sentences import real_folder
from tools.retrieval.labelled import BOOKS, QUALITY, read_questions
from tools.retrieval.measuring import recalls
from tools.retrieval_quality import WAYS, LoadedEmbedder


@pytest.fixture(scope="module")
def recall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], float]]:
    """Recall of the first five, by way and kind of question."""
    folder = real_folder()
    if folder is None:
        pytest.skip("all-MiniLM-L6-v2 is not installed")
    place, embedder = tmp_path_factory.mktemp("quality"), LoadedEmbedder(folder)
    with closing(database_in(place)) as database, closing(Documents(database, place, embedder)) as documents:
        collection = documents.create("books")
        text = (QUALITY / "alice.txt").read_text(encoding="utf-8")
        passages = documents.passages(_pasted(documents, collection, text))
        searcher = Searcher(database, embedder)
        ranks: dict[tuple[str, str], list[int]] = {}
        for one in read_questions():
            if one.document != "alice":
                continue
            found, _ = searcher.candidates([collection], one.question)
            answers = {passage.id for passage in passages if one.is_answered_by(passage.title, passage.text)}
            for way, order in WAYS.items():
                places = [at for at, each in enumerate(order(found), start=1) if each.passage in answers]
                ranks.setdefault((way, one.kind), []).append(min(places, default=0))
        yield {key: float(recalls(some).mean()) for key, some in ranks.items()}


def _pasted(documents: Documents, collection: int, text: str) -> int:
    document = documents.paste(collection, text, BOOKS["alice"])
    documents.wait()
    return document


def test_words_find_what_uses_the_words_of_the_book(recall: dict[tuple[str, str], float]) -> None:
    assert recall["words (BM25)", "near"] > 0.9
    assert recall["both", "near"] > 0.9


def test_meaning_finds_paraphrases_that_words_do_not(recall: dict[tuple[str, str], float]) -> None:
    assert recall["meaning (vectors)", "paraphrase"] > recall["words (BM25)", "paraphrase"] + 0.1
    assert recall["both", "paraphrase"] > recall["words (BM25)", "paraphrase"] + 0.1
